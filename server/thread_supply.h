// Whether the system lets us have the threads that we need. gRPC does not say so when it cannot
// start one: it aborts, or waits for ever for what that thread was to do.
#pragma once

#include "absl/status/status.h"
#include "server/config/config.h"

namespace lodgekv::server {

// One polling thread for reads and one for writes each.
size_t PollerPairs(const Config& config);

// Starts as many threads as the daemon will have, and ends them again. The error says how many
// could be had and what limits them.
absl::Status CheckThreadSupply(const Config& config);

}  // namespace lodgekv::server
