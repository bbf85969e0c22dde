// Whether the system allows the threads that the daemon needs. If gRPC cannot start a thread it
// does not report an error: it aborts, or waits for that thread for ever.
#pragma once

#include "absl/status/status.h"
#include "server/config/config.h"

namespace lodgekv::server {

// How many threads receive calls.
size_t Pollers(const Config& config);

// Starts as many threads as the daemon will have, and ends them again. The error says how many
// could be started and what limits them.
absl::Status CheckThreadSupply(const Config& config);

}  // namespace lodgekv::server
