// The options of a port of the front door.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "server/front_door/connection_record.h"
#include "server/front_door/delayed_connections.h"
#include "server/front_door/peer_buckets.h"

namespace lodgekv::server {

struct PortLimits {
  uint64_t max_connections = 0;
  uint64_t max_connections_per_peer = 0;
  BucketLimits offences;
  ConnectionRateLimits rate;
  ConnectionLimits connection;
};

struct PortOptions {
  std::string name;    // in metrics and log
  bool small = false;  // few connections and small requests
  bool tls = false;
  std::function<PortLimits()> limits;
};

}  // namespace lodgekv::server
