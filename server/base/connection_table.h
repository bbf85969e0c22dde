// The open connections, by the name that gRPC gives the remote end.
//
// INVARIANT  A connection is in the table from Add to Remove. Clients of a Unix socket have no
//            names of their own, so all of them count as one connection, as do clients inside the
//            process; that one is made at its first look-up and stays.
// Thread safety: all methods at any time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "server/base/connection.h"

namespace lodgekv::server {

class ConnectionTable {
 public:
  // `name` as in Connection. A connection of the same name is replaced: its socket is closed, or
  // the kernel would not have assigned its port again.
  std::shared_ptr<Connection> Add(std::string_view name);
  // Calls of the connection that are still open keep the object alive.
  void Remove(const Connection& connection);

  // Looked up once for each call. Calls of a connection that is not in the table, such as one that
  // has just closed, share one object outside of the table for as long as any of them uses it.
  std::shared_ptr<Connection> Find(std::string_view name);

  // How many connections from this address are in the table.
  uint64_t ConnectionsOf(std::string_view address) const;

  std::vector<std::shared_ptr<Connection>> All() const;

 private:
  static constexpr size_t kShards = 16;

  struct Shard {
    mutable std::mutex mutex;
    // Guarded by mutex, as is the size at which unused strays are dropped.
    absl::flat_hash_map<std::string, std::shared_ptr<Connection>> by_name;
    absl::flat_hash_map<std::string, std::weak_ptr<Connection>> strays;
    size_t prune_at = 0;
  };

  Shard& ShardOf(std::string_view name);
  static std::shared_ptr<Connection> FindIn(Shard& shard, std::string_view name);
  std::shared_ptr<Peer> PeerOf(std::string_view name);

  std::array<Shard, kShards> shards_;
  mutable std::mutex peers_mutex_;
  // Guarded by peers_mutex_, as is the size at which the peers without connections are dropped.
  absl::flat_hash_map<std::string, std::weak_ptr<Peer>> peers_;
  size_t prune_at_ = 0;
};

// "ipv4:192.0.2.1" of "ipv4:192.0.2.1:4711"; other names are their own address.
std::string_view AddressOf(std::string_view name);

}  // namespace lodgekv::server
