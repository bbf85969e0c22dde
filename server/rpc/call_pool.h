// The call objects of one completion queue: those that wait for a client are the queue's, those
// that serve nobody are kept here, to be used again.
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

  // Lets a call of this method wait for a client.
  void Listen(Method method, CallHost& host);
  // Takes a released call back.
  void Recycle(Call& call);

 private:
  KvService& service_;
  grpc::ServerCompletionQueue& queue_;
  std::array<std::vector<std::unique_ptr<Call>>, kMethodCount> spare_;
};

}  // namespace lodgekv::server
