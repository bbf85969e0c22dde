// What the gRPC library writes to its own log.
#pragma once

namespace lodgekv::server {

// Lines of the gRPC library go to our log: its errors as debug messages, since we report, in our
// own words, what matters of them; a failed TLS handshake we know from there alone.
void AdoptGrpcLog();

}  // namespace lodgekv::server
