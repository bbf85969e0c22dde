// TLS connections that came to nothing. gRPC tells of them in its own log alone, and not who it
// was.
#pragma once

#include <cstdint>
#include <string_view>

namespace lodgekv::server {

// Counts a line of gRPC's log if it tells of a failed handshake, and now and then says so in ours.
// From any thread. False: it tells of something else.
bool NoteHandshakeFailure(std::string_view grpc_line);

// Since the start of the process.
uint64_t HandshakeFailures();

}  // namespace lodgekv::server
