#include "server/admin/unknown_calls.h"

#include <string>

namespace lodgekv::server {
namespace {

// One call. It belongs to the queue, as the tag of its next event.
class UnknownCall final : public Event {
 public:
  static void Receive(grpc::AsyncGenericService& service, grpc::ServerCompletionQueue& queue) {
    auto* call = new UnknownCall(service, queue);
    service.RequestCall(&call->context_, &call->stream_, &queue, &queue, call->Tag());
  }

  void OnEvent(bool ok) override {
    if (!ok || answered_) {
      delete this;
      return;
    }
    Receive(service_, queue_);
    answered_ = true;
    stream_.Finish({grpc::StatusCode::UNIMPLEMENTED, "no such call at this port"}, Tag());
  }

 private:
  UnknownCall(grpc::AsyncGenericService& service, grpc::ServerCompletionQueue& queue)
      : service_(service), queue_(queue) {}

  grpc::AsyncGenericService& service_;
  grpc::ServerCompletionQueue& queue_;
  bool answered_ = false;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_{&context_};
};

}  // namespace

void UnknownCalls::Receive(grpc::ServerCompletionQueue& queue) {
  UnknownCall::Receive(service_, queue);
}

}  // namespace lodgekv::server
