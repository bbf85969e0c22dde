// Failed TLS handshakes. gRPC reports them in its own log alone, and without the peer; the front
// door may find out which peer it was before the line is written.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace lodgekv::server {

// Counts a line of gRPC's log if it reports a failed handshake, and logs it, at a limited rate.
// False: it reports something else. From any thread.
bool NoteHandshakeFailure(std::string_view grpc_line);

struct FailedHandshake {
  std::string reason;
  std::chrono::steady_clock::time_point at;
  uint64_t not_logged_before = 0;
};

// From now on `reporter` is called, on a thread of gRPC, for each failure that is due to be logged,
// and must call LogFailedHandshake. The last one set is used, until it is cleared.
void SetHandshakeReporter(const void* owner, std::function<void(FailedHandshake)> reporter);
void ClearHandshakeReporter(const void* owner);

void LogFailedHandshake(const FailedHandshake& failed, std::string_view peer);

// Since the start of the process.
uint64_t HandshakeFailures();

}  // namespace lodgekv::server
