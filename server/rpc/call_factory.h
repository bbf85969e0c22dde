// Makes the call objects of the data service.
#pragma once

#include <memory>

#include "server/rpc/call.h"
#include "server/rpc/call_host.h"

namespace lodgekv::server {

std::unique_ptr<Call> MakeCall(Method method, CallHost& host);

}  // namespace lodgekv::server
