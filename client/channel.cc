#include "client/channel.h"

#include <algorithm>
#include <climits>
#include <cstdint>

namespace lodgekv::client {
namespace {

std::shared_ptr<grpc::ChannelCredentials> CredentialsOf(const ClientOptions& options) {
  if (!options.tls) return grpc::InsecureChannelCredentials();
  return grpc::SslCredentials({options.tls->ca_pem, options.tls->key_pem, options.tls->cert_pem});
}

// For gRPC, which takes the greatest int for never.
int Milliseconds(absl::Duration duration) {
  return static_cast<int>(std::min<int64_t>(absl::ToInt64Milliseconds(duration), INT_MAX));
}

void SetKeepalive(grpc::ChannelArguments& arguments, const ClientOptions& options) {
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(options.keepalive_time));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Milliseconds(options.keepalive_timeout));
  // Else gRPC pings twice, and then no more until data is sent: a call that takes minutes sends
  // none.
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
}

}  // namespace

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address,
                                           const ClientOptions& options) {
  grpc::ChannelArguments arguments;
  if (options.tls && !options.tls->server_name.empty()) {
    arguments.SetSslTargetNameOverride(options.tls->server_name);
  }
  // The server's limits bound the size of answers, and may be configured above gRPC's own.
  arguments.SetMaxReceiveMessageSize(-1);
  // Retries are up to the caller.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // Proxies are for the web; a database on loopback is not behind one.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  SetKeepalive(arguments, options);
  if (options.own_connection) arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, CredentialsOf(options), arguments);
}

}  // namespace lodgekv::client
