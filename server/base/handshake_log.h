// TLS connections that came to nothing. gRPC tells of them in its own log alone, and not who it
// was: who knows that may find out before the line is written.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace lodgekv::server {

// Counts a line of gRPC's log if it tells of a failed handshake, and now and then says so in ours.
// From any thread. False: it tells of something else.
bool NoteHandshakeFailure(std::string_view grpc_line);

struct FailedHandshake {
  std::string reason;
  std::chrono::steady_clock::time_point at;
  uint64_t not_logged_before = 0;
};

// From now on `teller` is given those that are due for a line, on a thread of gRPC, and is to call
// LogFailedHandshake. The last one holds, until it is forgotten.
void SetHandshakeTeller(const void* owner, std::function<void(FailedHandshake)> teller);
void ForgetHandshakeTeller(const void* owner);

void LogFailedHandshake(const FailedHandshake& failed, std::string_view peer);

// Since the start of the process.
uint64_t HandshakeFailures();

}  // namespace lodgekv::server
