#include "server/rpc/call_factory.h"

#include "server/rpc/kv_calls.h"
#include "server/rpc/scan_call.h"
#include "server/rpc/session_call.h"

namespace lodgekv::server {

std::unique_ptr<Call> MakeCall(Method method, CallHost& host) {
  switch (method) {
    case Method::kGet: return std::make_unique<GetCall>(host);
    case Method::kPut: return std::make_unique<PutCall>(host);
    case Method::kDelete: return std::make_unique<DeleteCall>(host);
    case Method::kScan: return std::make_unique<ScanCall>(host);
    case Method::kBatchGet: return std::make_unique<BatchGetCall>(host);
    case Method::kSession: return std::make_unique<SessionCall>(host);
    case Method::kBatchWrite: return std::make_unique<BatchWriteCall>(host);
  }
  return nullptr;
}

}  // namespace lodgekv::server
