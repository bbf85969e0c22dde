#include "server/base/connection_table.h"

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"

namespace lodgekv::server {
namespace {

absl::string_view ToAbsl(std::string_view text) { return {text.data(), text.size()}; }

// Below this size pruning is not worth it.
constexpr size_t kLeastPrune = 64;

// Sometimes drops entries that nobody uses any more.
template <class Map>
void Prune(Map& map, size_t& prune_at) {
  if (map.size() < prune_at) return;
  absl::erase_if(map, [](const auto& entry) { return entry.second.expired(); });
  prune_at = std::max(kLeastPrune, 2 * map.size());
}

// Whether it is gRPC's name of a TCP connection, which the front door can identify and has added.
bool HasPort(std::string_view name) { return name.substr(0, 2) == "ip"; }

}  // namespace

std::string_view AddressOf(std::string_view name) {
  if (!HasPort(name)) return name;
  return name.substr(0, name.rfind(':'));
}

ConnectionTable::Shard& ConnectionTable::ShardOf(std::string_view name) {
  return shards_[absl::HashOf(ToAbsl(name)) % kShards];
}

std::shared_ptr<Peer> ConnectionTable::PeerOf(std::string_view name) {
  const std::string_view address = AddressOf(name);
  const std::lock_guard lock(peers_mutex_);
  Prune(peers_, prune_at_);
  std::weak_ptr<Peer>& known = peers_[ToAbsl(address)];
  std::shared_ptr<Peer> peer = known.lock();
  if (peer == nullptr) {
    peer = std::make_shared<Peer>(std::string(address));
    known = peer;
  }
  return peer;
}

std::shared_ptr<Connection> ConnectionTable::Add(std::string_view name) {
  auto connection = std::make_shared<Connection>(std::string(name), PeerOf(name));
  Shard& shard = ShardOf(name);
  const std::lock_guard lock(shard.mutex);
  shard.by_name[connection->name] = connection;
  return connection;
}

void ConnectionTable::Remove(const Connection& connection) {
  Shard& shard = ShardOf(connection.name);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.by_name.find(connection.name);
  if (found == shard.by_name.end() || found->second.get() != &connection) return;
  shard.by_name.erase(found);
}

// The caller holds its mutex.
std::shared_ptr<Connection> ConnectionTable::FindIn(Shard& shard, std::string_view name) {
  const auto found = shard.by_name.find(ToAbsl(name));
  if (found != shard.by_name.end()) return found->second;
  const auto stray = shard.strays.find(ToAbsl(name));
  return stray == shard.strays.end() ? nullptr : stray->second.lock();
}

std::shared_ptr<Connection> ConnectionTable::Find(std::string_view name) {
  Shard& shard = ShardOf(name);
  {
    const std::lock_guard lock(shard.mutex);
    if (auto found = FindIn(shard, name)) return found;
  }
  auto made = std::make_shared<Connection>(std::string(name), PeerOf(name));
  const std::lock_guard lock(shard.mutex);
  if (auto found = FindIn(shard, name)) return found;
  if (!HasPort(name)) {
    shard.by_name[made->name] = made;
    return made;
  }
  Prune(shard.strays, shard.prune_at);
  shard.strays[made->name] = made;
  return made;
}

uint64_t ConnectionTable::ConnectionsOf(std::string_view address) const {
  const std::lock_guard lock(peers_mutex_);
  const auto found = peers_.find(ToAbsl(address));
  if (found == peers_.end()) return 0;
  const std::shared_ptr<Peer> peer = found->second.lock();
  return peer == nullptr ? 0 : peer->connections.load(std::memory_order_relaxed);
}

std::vector<std::shared_ptr<Connection>> ConnectionTable::All() const {
  std::vector<std::shared_ptr<Connection>> all;
  for (const Shard& shard : shards_) {
    const std::lock_guard lock(shard.mutex);
    for (const auto& [name, connection] : shard.by_name) all.push_back(connection);
  }
  return all;
}

}  // namespace lodgekv::server
