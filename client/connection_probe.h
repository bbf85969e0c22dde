// Why no connection is made, in words: gRPC says "Socket closed" of most of it.
#pragma once

#include <string>

#include "client/lodgekv_client.h"

namespace lodgekv::client {

// Connects once more by hand, for at most a few seconds, and says what is wrong between this client
// and the server at `address` (host:port): TLS on one side alone, a certificate that one of them
// does not accept. Empty: nothing of that kind was seen.
std::string ExplainConnection(const std::string& address, const std::optional<TlsOptions>& tls);

}  // namespace lodgekv::client
