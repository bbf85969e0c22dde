#include "server/base/shared_queue.h"

#include <grpc/grpc.h>
#include <grpcpp/server.h>

namespace lodgekv::server {
namespace {

thread_local grpc::ServerCompletionQueue* shared = nullptr;

class RegisterShared final : public grpc::Server::GlobalCallbacks {
 public:
  void PreSynchronousRequest(grpc::ServerContext*) override {}
  void PostSynchronousRequest(grpc::ServerContext*) override {}
  void PreServerStart(grpc::Server* server) override {
    if (shared == nullptr) return;
    grpc_server_register_completion_queue(server->c_server(), shared->cq(), nullptr);
  }
};

// Before the first server of the process is made, else gRPC has set callbacks of its own. It takes
// ownership, whatever its comment says.
[[maybe_unused]] const bool installed = [] {
  grpc::Server::SetGlobalCallbacks(new RegisterShared);
  return true;
}();

}  // namespace

UnusedQueue::~UnusedQueue() {
  queue_->Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) {
  }
}

SharedQueue::SharedQueue(grpc::ServerCompletionQueue& queue) { shared = &queue; }
SharedQueue::~SharedQueue() { shared = nullptr; }

}  // namespace lodgekv::server
