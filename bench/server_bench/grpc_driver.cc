#include <grpcpp/grpcpp.h>

#include <optional>
#include <utility>

#include "bench/server_bench/grpc_channels.h"
#include "bench/server_bench/put_driver.h"
#include "etcd_kv.grpc.pb.h"
#include "lodgekv/v1/kv.grpc.pb.h"

namespace lodgekv::server_bench {
namespace {

// For any service with a call Put whose request has a key and a value.
template <class Service, class Request, class Response>
class GrpcDriver final : public PutDriver {
 public:
  GrpcDriver(std::string server, const PutShare& share)
      : server_(std::move(server)), share_(share), slots_(share.in_flight) {}

  ~GrpcDriver() override {
    for (Slot& slot : slots_) {
      if (slot.reader != nullptr) slot.context->TryCancel();
    }
    queue_.Shutdown();
    void* tag = nullptr;
    for (bool ok = false; queue_.Next(&tag, &ok);) continue;
  }

  absl::Status Connect() override {
    const auto channels = ConnectChannels(server_, share_.connections);
    if (!channels.ok()) return channels.status();
    for (const auto& channel : *channels) stubs_.push_back(Service::NewStub(channel));
    for (size_t i = 0; i < slots_.size(); ++i) slots_[i].stub = stubs_[i % stubs_.size()].get();
    return absl::OkStatus();
  }

  absl::Status Run(PutSource& source, PutRecorder& recorder) override {
    size_t in_flight = 0;
    for (Slot& slot : slots_) in_flight += Send(slot, source, recorder, NowNs()) ? 1 : 0;
    while (in_flight > 0) {
      void* tag = nullptr;
      bool ok = false;
      if (!queue_.Next(&tag, &ok)) return absl::InternalError("the completion queue ended");
      Slot& slot = *static_cast<Slot*>(tag);
      slot.reader.reset();
      if (!slot.status.ok()) return CallFailed("a put", slot.status);
      const uint64_t now = NowNs();
      recorder.Answered(slot.sent_ns, now);
      if (!Send(slot, source, recorder, now)) --in_flight;
    }
    return absl::OkStatus();
  }

 private:
  struct Slot {
    typename Service::Stub* stub = nullptr;
    std::optional<grpc::ClientContext> context;
    Request request;
    Response response;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> reader;  // while it is in flight
    uint64_t sent_ns = 0;
  };

  bool Send(Slot& slot, PutSource& source, PutRecorder& recorder, uint64_t now_ns) {
    if (!recorder.TakePut(now_ns)) return false;
    slot.request.set_key(source.key().data(), source.key().size());
    slot.request.set_value(source.value().data(), source.value().size());
    source.Next();
    slot.context.emplace();
    slot.context->set_deadline(AnswerDeadline());
    slot.sent_ns = now_ns;
    slot.reader = slot.stub->PrepareAsyncPut(&*slot.context, slot.request, &queue_);
    slot.reader->StartCall();
    slot.reader->Finish(&slot.response, &slot.status, &slot);
    return true;
  }

  const std::string server_;
  const PutShare share_;
  grpc::CompletionQueue queue_;
  std::vector<std::unique_ptr<typename Service::Stub>> stubs_;
  std::vector<Slot> slots_;
};

}  // namespace

std::unique_ptr<PutDriver> MakeLodgekvDriver(const PutPlan& plan, const PutShare& share) {
  using Driver = GrpcDriver<v1::KvService, v1::PutRequest, v1::PutResponse>;
  return std::make_unique<Driver>(plan.server, share);
}

std::unique_ptr<PutDriver> MakeEtcdDriver(const PutPlan& plan, const PutShare& share) {
  using Driver = GrpcDriver<etcdserverpb::KV, etcdserverpb::PutRequest, etcdserverpb::PutResponse>;
  return std::make_unique<Driver>(plan.server, share);
}

}  // namespace lodgekv::server_bench
