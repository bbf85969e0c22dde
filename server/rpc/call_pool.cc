#include "server/rpc/call_pool.h"

#include <utility>

#include "server/rpc/call_factory.h"

namespace lodgekv::server {
namespace {

constexpr size_t kMaxSpareCalls = 256;

}  // namespace

void CallPool::Listen(Method method, CallHost& host) {
  auto& spare = spare_[static_cast<size_t>(method)];
  std::unique_ptr<Call> call;
  if (spare.empty()) {
    call = MakeCall(method, host);
  } else {
    call = std::move(spare.back());
    spare.pop_back();
  }
  // From here on the completion queue owns it, as the tag of its next event.
  call.release()->Listen(service_, &queue_);
}

void CallPool::Recycle(Call& call) {
  std::unique_ptr<Call> owned(&call);
  auto& spare = spare_[static_cast<size_t>(call.method())];
  if (spare.size() < kMaxSpareCalls) spare.push_back(std::move(owned));
}

}  // namespace lodgekv::server
