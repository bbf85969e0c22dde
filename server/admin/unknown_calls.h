// Calls of methods that a server has none of, on a poller's queue: gRPC's own answer to them would
// wait for a thread at a queue of the server alone.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include "server/base/event.h"

namespace lodgekv::server {

// Answers UNIMPLEMENTED.
class UnknownCalls final : public QueuedService {
 public:
  void RegisterAt(grpc::ServerBuilder& builder) { builder.RegisterAsyncGenericService(&service_); }
  void Receive(grpc::ServerCompletionQueue& queue) override;

 private:
  grpc::AsyncGenericService service_;
};

}  // namespace lodgekv::server
