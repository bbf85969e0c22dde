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

// One stream of Watch. It lives until gRPC has finished it, or longer while another thread notifies
// it.
//
// INVARIANT  At most one write is running, and none once the stream is to finish.
class WatchReactor final : public grpc::ServerWriteReactor<HealthCheckResponse>,
                           public HealthWatcher,
                           public std::enable_shared_from_this<WatchReactor> {
 public:
  static WatchReactor* Make(HealthState& state, const std::string& name) {
    const auto reactor = std::make_shared<WatchReactor>();
    reactor->self_ = reactor;
    if (name.size() > kMaxNameSize) {
      reactor->End({grpc::StatusCode::INVALID_ARGUMENT, "the name of the service is too long"});
    } else if (!state.Watch(name, reactor)) {
      reactor->End({grpc::StatusCode::RESOURCE_EXHAUSTED,
                    "too many streams watch the health of this server: use Check"});
    }
    return reactor.get();
  }

  void Notify(Health health) override {
    {
      const std::lock_guard lock(mutex_);
      wanted_ = ToProto(health);
    }
    Go();
  }

  void OnWriteDone(bool ok) override {
    {
      const std::lock_guard lock(mutex_);
      writing_ = false;
      if (!ok && !end_) end_ = grpc::Status::CANCELLED;
    }
    Go();
  }

  void OnCancel() override { End(grpc::Status::CANCELLED); }

  void OnDone() override { self_.reset(); }

 private:
  void End(grpc::Status status) {
    {
      const std::lock_guard lock(mutex_);
      if (!end_) end_ = std::move(status);
    }
    Go();
  }

  // Starts the next operation, with no lock held: gRPC may call back from within.
  void Go() {
    bool finish = false;
    {
      const std::lock_guard lock(mutex_);
      if (writing_ || finished_) return;
      finish = finished_ = end_.has_value();
      if (!finish) {
        if (wanted_ == sent_) return;
        sent_ = wanted_;
        response_.set_status(*wanted_);
        writing_ = true;
      }
    }
    if (finish) {
      Finish(*end_);
    } else {
      StartWrite(&response_);
    }
  }

  std::shared_ptr<WatchReactor> self_;
  HealthCheckResponse response_;  // of the running write
  std::mutex mutex_;
  std::optional<HealthCheckResponse::ServingStatus> wanted_;
  std::optional<HealthCheckResponse::ServingStatus> sent_;
  std::optional<grpc::Status> end_;
  bool writing_ = false;
  bool finished_ = false;
};

}  // namespace

grpc::ServerUnaryReactor* HealthService::Check(grpc::CallbackServerContext* context,
                                               const HealthCheckRequest* request,
                                               HealthCheckResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const Health health = state_.Get(request->service());
  if (health == Health::kUnknownName) {
    reactor->Finish({grpc::StatusCode::NOT_FOUND, "no service of this name"});
  } else {
    response->set_status(ToProto(health));
    reactor->Finish(grpc::Status::OK);
  }
  return reactor;
}

grpc::ServerWriteReactor<HealthCheckResponse>* HealthService::Watch(
    grpc::CallbackServerContext*, const HealthCheckRequest* request) {
  return WatchReactor::Make(state_, request->service());
}

}  // namespace lodgekv::server
