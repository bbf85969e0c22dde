// What the front door's thread keeps for a port and for each of its connections.
//
// INVARIANT  connections, by_name and of_peer list the same connections. All members but `counters`
//            are used only by the door's thread once it runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "server/base/connection.h"
#include "server/front_door/connection_record.h"
#include "server/front_door/delayed_connections.h"
#include "server/front_door/door_counters.h"
#include "server/front_door/listen_socket.h"
#include "server/front_door/peer_buckets.h"
#include "server/front_door/port_options.h"
#include "server/front_door/watched_socket.h"

namespace lodgekv::server {

struct OpenConnection {
  OpenConnection(int fd, std::string of_name, std::string of_network, DoorTime now)
      : socket(fd),
        name(std::move(of_name)),
        network(std::move(of_network)),
        hot_until(now + kHotFor),
        record(now) {}

  // How long a connection is checked more often, from its accept or since it moved many bytes.
  static constexpr std::chrono::seconds kHotFor{2};

  WatchedSocket socket;
  const std::string name;
  const std::string network;
  std::shared_ptr<Connection> in_table;  // its entry there; null for a Unix socket
  SocketUse use;                         // as of the last check
  // Until then it is checked more often.
  DoorTime hot_until;
  uint64_t read_at_full_check = 0;
  ConnectionRecord record;
  intptr_t transport = 0;  // of channelz; 0: not known
  bool ended = false;      // closed by us; it does not count any more
};

struct DoorPort {
  DoorPort(PortOptions with, ListenSocket on) : options(std::move(with)), listener(std::move(on)) {}

  uint64_t counted() const { return connections.size() - closing + delayed.size(); }

  const PortOptions options;
  std::optional<ListenSocket> listener;  // none once the door has stopped
  std::function<void(int fd)> receiver;
  intptr_t channelz_server = 0;
  DoorCounters counters;

  std::vector<std::unique_ptr<OpenConnection>> connections;
  absl::flat_hash_map<std::string, OpenConnection*> by_name;  // those with a name of their own
  absl::flat_hash_map<std::string, uint64_t> of_peer;
  PeerBuckets offences;
  DelayedConnections delayed;
  uint64_t closing = 0;  // of connections: closed by us, and not yet by their owner
  // Since when `closing` has been at its limit; nothing while it is below.
  std::optional<DoorTime> crowded_since;
  DoorTime reaped;
  // Channelz' sockets are searched from this number on, and from `newer` on some time later.
  intptr_t search_from = 0;
  intptr_t newer = 0;
  DoorTime marked;
};

}  // namespace lodgekv::server
