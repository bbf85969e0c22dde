// What the front door's thread keeps for a port and for each connection of it.
//
// INVARIANT  guests, by_name and of_peer speak of the same connections; all but `counters` belong
//            to the door's thread once it runs.
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
#include "server/front_door/anteroom.h"
#include "server/front_door/connection_record.h"
#include "server/front_door/door_counters.h"
#include "server/front_door/listen_socket.h"
#include "server/front_door/peer_buckets.h"
#include "server/front_door/port_options.h"
#include "server/front_door/watched_socket.h"

namespace lodgekv::server {

struct Guest {
  Guest(int fd, std::string of_name, std::string of_network, DoorTime now)
      : socket(fd),
        name(std::move(of_name)),
        network(std::move(of_network)),
        hot_until(now + kHotFor),
        record(now) {}

  // So long a new connection is looked at more often, and one of which much has moved.
  static constexpr std::chrono::seconds kHotFor{2};

  WatchedSocket socket;
  const std::string name;
  const std::string network;
  std::shared_ptr<Connection> connection;  // null: of a Unix socket
  SocketUse use;                           // by the last look
  // Until then it is looked at more often: it is new, or much has moved.
  DoorTime hot_until;
  uint64_t read_at_whole_look = 0;
  ConnectionRecord record;
  intptr_t transport = 0;  // of channelz; 0: not known
  bool ended = false;      // by us; it does not count any more
};

struct DoorPort {
  DoorPort(PortOptions with, ListenSocket on) : options(std::move(with)), listener(std::move(on)) {}

  uint64_t counted() const { return guests.size() - leaving + anteroom.size(); }

  const PortOptions options;
  std::optional<ListenSocket> listener;  // none: the door has stopped
  std::function<void(int fd)> consumer;
  intptr_t channelz_server = 0;
  DoorCounters counters;

  std::vector<std::unique_ptr<Guest>> guests;
  absl::flat_hash_map<std::string, Guest*> by_name;  // those that have a name of their own
  absl::flat_hash_map<std::string, uint64_t> of_peer;
  PeerBuckets offences;
  Anteroom anteroom;
  uint64_t leaving = 0;  // of guests: ended, and not yet closed
  DoorTime reaped;
  // Transports of channelz are looked for from here on, and from `newer` on some time later.
  intptr_t look_from = 0;
  intptr_t newer = 0;
  DoorTime marked;
};

}  // namespace lodgekv::server
