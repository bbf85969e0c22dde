// The answer to a message of a session as kv.proto has it on the wire.
#pragma once

#include <grpcpp/support/slice.h>

#include "server/rpc/session_message.h"

namespace lodgekv::server {

// A SessionResponse.
grpc::Slice SessionAnswerOnWire(const SessionMessage& message);

}  // namespace lodgekv::server
