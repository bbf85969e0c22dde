// The gRPC library's own log.
#pragma once

namespace lodgekv::server {

// Sends the lines of the gRPC library to our log, its errors at level debug: what matters of them
// we report in our own words. Failed TLS handshakes are known from there alone.
void AdoptGrpcLog();

}  // namespace lodgekv::server
