#include "server/admin/health_service.h"

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace lodgekv::server {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

// A watched name is kept in memory.
constexpr size_t kMaxNameSize = 200;

HealthCheckResponse::ServingStatus ToProto(Health health) {
  switch (health) {
    case Health::kServing: return HealthCheckResponse::SERVING;
    case Health::kNotServing: return HealthCheckResponse::NOT_SERVING;
    case Health::kUnknownName: return HealthCheckResponse::SERVICE_UNKNOWN;
  }
  return HealthCheckResponse::UNKNOWN;
}

// One call of Check. It belongs to the queue, as the tag of its next event.
class CheckCall final : public Event {
 public:
  static void Receive(HealthService& service, grpc::ServerCompletionQueue& queue) {
    auto* call = new CheckCall(service, queue);
    service.RequestCheck(&call->context_, &call->request_, &call->responder_, &queue, &queue,
                         call->Tag());
  }

  void OnEvent(bool ok) override {
    if (!ok || answered_) {
      delete this;
      return;
    }
    Receive(service_, queue_);
    answered_ = true;
    const Health health = service_.state().Get(request_.service());
    if (health == Health::kUnknownName) {
      responder_.FinishWithError({grpc::StatusCode::NOT_FOUND, "no service of this name"}, Tag());
    } else {
      HealthCheckResponse response;
      response.set_status(ToProto(health));
      responder_.Finish(response, grpc::Status::OK, Tag());
    }
  }

 private:
  CheckCall(HealthService& service, grpc::ServerCompletionQueue& queue)
      : service_(service), queue_(queue) {}

  HealthService& service_;
  grpc::ServerCompletionQueue& queue_;
  bool answered_ = false;
  grpc::ServerContext context_;
  HealthCheckRequest request_;
  grpc::ServerAsyncResponseWriter<HealthCheckResponse> responder_{&context_};
};

// One stream of Watch. It lives until its last event has arrived, or longer while another thread
// notifies it.
//
// INVARIANT  At most one operation is running, and none is started once the stream is over.
class WatchCall final : public HealthWatcher, public std::enable_shared_from_this<WatchCall> {
 public:
  static void Receive(HealthService& service, grpc::ServerCompletionQueue& queue) {
    const auto call = std::make_shared<WatchCall>(service, queue);
    call->self_ = call;
    call->context_.AsyncNotifyWhenDone(call->done_event_.Tag());
    service.RequestWatch(&call->context_, &call->request_, &call->writer_, &queue, &queue,
                         call->received_event_.Tag());
  }

  WatchCall(HealthService& service, grpc::ServerCompletionQueue& queue)
      : service_(service), queue_(queue) {}

  void Notify(Health health) override {
    {
      const std::lock_guard lock(mutex_);
      wanted_ = ToProto(health);
    }
    Go();
  }

 private:
  using Handler = void (WatchCall::*)(bool ok);

  // One of the kinds of events of a stream.
  class Step final : public Event {
   public:
    Step(WatchCall& call, Handler handler) : call_(call), handler_(handler) {}
    void OnEvent(bool ok) override { (call_.*handler_)(ok); }

   private:
    WatchCall& call_;
    const Handler handler_;
  };

  // Not ok: the server has shut down, and no other event follows.
  void OnReceived(bool ok) {
    if (!ok) return self_.reset();
    Receive(service_, queue_);
    if (request_.service().size() > kMaxNameSize) {
      End({grpc::StatusCode::INVALID_ARGUMENT, "the name of the service is too long"});
    } else if (!service_.state().Watch(service_.port(), request_.service(), shared_from_this())) {
      End({grpc::StatusCode::RESOURCE_EXHAUSTED,
           "too many streams watch health at this port: use Check"});
    }
  }

  void OnOperationDone(bool ok) {
    {
      const std::lock_guard lock(mutex_);
      running_ = false;
      over_ = over_ || !ok;
    }
    Go();
    ReleaseIfLast();
  }

  // The stream has ended: by Finish, or since the client has left.
  void OnDone(bool) {
    {
      const std::lock_guard lock(mutex_);
      over_ = done_ = true;
    }
    ReleaseIfLast();
  }

  // Gives up the queue's share after the last event; nothing of the call may be used afterwards.
  void ReleaseIfLast() {
    std::shared_ptr<WatchCall> last;  // destroyed after the lock, which is a member
    const std::lock_guard lock(mutex_);
    if (done_ && !running_) last.swap(self_);
  }

  void End(grpc::Status status) {
    {
      const std::lock_guard lock(mutex_);
      end_ = std::move(status);
    }
    Go();
  }

  // Starts the next operation, with no lock held.
  void Go() {
    bool finish = false;
    {
      const std::lock_guard lock(mutex_);
      if (running_ || over_) return;
      finish = over_ = end_.has_value();
      if (!finish) {
        if (wanted_ == sent_) return;
        sent_ = wanted_;
        response_.set_status(*wanted_);
      }
      running_ = true;
    }
    if (finish) {
      writer_.Finish(*end_, operation_event_.Tag());
    } else {
      writer_.Write(response_, operation_event_.Tag());
    }
  }

  HealthService& service_;
  grpc::ServerCompletionQueue& queue_;
  std::shared_ptr<WatchCall> self_;  // the queue's share
  grpc::ServerContext context_;
  HealthCheckRequest request_;
  HealthCheckResponse response_;  // of the running write
  grpc::ServerAsyncWriter<HealthCheckResponse> writer_{&context_};
  Step received_event_{*this, &WatchCall::OnReceived};
  Step operation_event_{*this, &WatchCall::OnOperationDone};
  Step done_event_{*this, &WatchCall::OnDone};
  std::mutex mutex_;
  std::optional<HealthCheckResponse::ServingStatus> wanted_;
  std::optional<HealthCheckResponse::ServingStatus> sent_;
  std::optional<grpc::Status> end_;
  bool running_ = false;  // an operation
  bool over_ = false;     // no operation may start
  bool done_ = false;     // the event of the end has arrived
};

}  // namespace

void HealthService::Receive(grpc::ServerCompletionQueue& queue) {
  CheckCall::Receive(*this, queue);
  WatchCall::Receive(*this, queue);
}

}  // namespace lodgekv::server
