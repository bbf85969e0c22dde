// The channels of the C++ client, for programs that call the generated stubs themselves.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "client/lodgekv_client.h"

namespace lodgekv::client {

// Connects at the first call.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address,
                                           const ClientOptions& options);

}  // namespace lodgekv::client
