// The call objects of one completion queue: those that listen or are served belong to the queue, as
// tags; unused ones are kept here for reuse.
#pragma once

#include <grpcpp/grpcpp.h>

#include <array>
#include <memory>
#include <vector>

#include "server/rpc/call.h"
#include "server/rpc/call_host.h"
#include "server/rpc/kv_service.h"

namespace lodgekv::server {

class CallPool {
 public:
  CallPool(KvService& service, grpc::ServerCompletionQueue& queue)
      : service_(service), queue_(queue) {}

  // Has a call object listen for a call of this method.
  void Listen(Method method, CallHost& host);
  // Takes a released call object back.
  void Recycle(Call& call);

 private:
  KvService& service_;
  grpc::ServerCompletionQueue& queue_;
  std::array<std::vector<std::unique_ptr<Call>>, kMethodCount> spare_;
};

}  // namespace lodgekv::server
