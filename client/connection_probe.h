// Explains why no connection was made: gRPC reports most reasons as "Socket closed".
#pragma once

#include <string>

#include "client/lodgekv_client.h"

namespace lodgekv::client {

// Connects once more manually, for at most a few seconds, and explains the problem between this
// client and the server at `address` (host:port): TLS on one side only, or a certificate that one
// side rejects. Empty: no such problem was found.
std::string ExplainConnection(const std::string& address, const std::optional<TlsOptions>& tls);

}  // namespace lodgekv::client
