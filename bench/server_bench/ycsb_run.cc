#include "bench/server_bench/ycsb_run.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "bench/server_bench/grpc_channels.h"
#include "bench/server_bench/put_recorder.h"
#include "bench/server_bench/put_run.h"
#include "bench/server_bench/ycsb_slot.h"

namespace lodgekv::server_bench {
namespace {

constexpr size_t kMostLoaded = 100;             // records of a batch
constexpr size_t kMostLoadedBytes = 1'000'000;  // of their values

// A thread's operations.
class YcsbThread {
 public:
  YcsbThread(const YcsbPlan& plan, const PutShare& share, workload::InsertSequence& inserts)
      : share_(share),
        lane_{.plan = plan,
              .chooser = workload::YcsbChooser(plan.workload, plan.phase.key_space, share.seed),
              .source = PutSource(share.seed, plan.phase.key_space, plan.value_bytes),
              .inserts = inserts} {}

  ~YcsbThread() {
    for (const auto& slot : slots_) slot->Cancel();
    lane_.queue.Shutdown();
    void* tag = nullptr;
    for (bool ok = false; lane_.queue.Next(&tag, &ok);) continue;
  }

  absl::Status Connect() {
    const auto channels = ConnectChannels(lane_.plan.phase.server, share_.connections);
    if (!channels.ok()) return channels.status();
    for (const auto& channel : *channels) stubs_.push_back(v1::KvService::NewStub(channel));
    for (size_t i = 0; i < share_.in_flight; ++i) {
      slots_.push_back(std::make_unique<YcsbSlot>(lane_, *stubs_[i % stubs_.size()]));
    }
    return absl::OkStatus();
  }

  void SetLimits(PutRecorder::Limits limits) {
    limits.least_puts = share_.in_flight;
    all_ = std::make_unique<PutRecorder>(limits);
    limits.least_puts = 0;
    for (auto& recorder : each_) recorder = std::make_unique<PutRecorder>(limits);
  }

  void Run() { status_ = TryRun(); }

  const absl::Status& status() const { return status_; }
  const PutRecorder& all() const { return *all_; }
  const PutRecorder& each(size_t operation) const { return *each_[operation]; }

 private:
  absl::Status TryRun() {
    size_t in_flight = 0;
    for (const auto& slot : slots_) in_flight += Begin(*slot, NowNs()) ? 1 : 0;
    while (in_flight > 0) {
      void* tag = nullptr;
      bool ok = false;
      if (!lane_.queue.Next(&tag, &ok)) return absl::InternalError("the completion queue ended");
      YcsbSlot& slot = *static_cast<YcsbSlot*>(tag);
      const absl::StatusOr<bool> done = slot.Advance(ok);
      if (!done.ok()) return done.status();
      if (!*done) continue;
      const uint64_t now = NowNs();
      all_->Answered(slot.begin_ns(), now);
      each_[static_cast<size_t>(slot.operation())]->Answered(slot.begin_ns(), now);
      if (!Begin(slot, now)) --in_flight;
    }
    return absl::OkStatus();
  }

  bool Begin(YcsbSlot& slot, uint64_t now_ns) {
    if (!all_->TakePut(now_ns)) return false;
    slot.Begin(now_ns);
    return true;
  }

  const PutShare share_;
  YcsbLane lane_;
  std::vector<std::unique_ptr<v1::KvService::Stub>> stubs_;
  std::vector<std::unique_ptr<YcsbSlot>> slots_;
  std::unique_ptr<PutRecorder> all_;
  std::array<std::unique_ptr<PutRecorder>, workload::kYcsbOperations> each_;
  absl::Status status_;
};

}  // namespace

absl::Status LoadYcsb(const YcsbPlan& plan) {
  const auto channels = ConnectChannels(plan.phase.server, 1);
  if (!channels.ok()) return channels.status();
  const auto stub = v1::KvService::NewStub(channels->front());
  PutSource source(plan.phase.seed, plan.phase.key_space, plan.value_bytes);
  const uint64_t batch =
      std::clamp<size_t>(kMostLoadedBytes / std::max<size_t>(plan.value_bytes, 1), 1, kMostLoaded);
  for (uint64_t first = 0; first < plan.phase.key_space; first += batch) {
    v1::BatchWriteRequest request;
    const uint64_t end = std::min(first + batch, plan.phase.key_space);
    for (uint64_t number = first; number < end; ++number) {
      source.NextBelow(number, 1);
      v1::Operation& operation = *request.add_operations();
      operation.set_kind(v1::OPERATION_KIND_PUT);
      operation.set_key(source.key().data(), source.key().size());
      operation.set_value(source.value().data(), source.value().size());
    }
    grpc::ClientContext context;
    context.set_deadline(AnswerDeadline());
    v1::BatchWriteResponse response;
    const grpc::Status status = stub->BatchWrite(&context, request, &response);
    if (!status.ok()) return CallFailed("loading", status);
  }
  return absl::OkStatus();
}

absl::StatusOr<YcsbResult> RunYcsb(const YcsbPlan& plan, workload::InsertSequence& inserts) {
  std::vector<std::unique_ptr<YcsbThread>> threads;
  for (const PutShare& share : SharesOf(plan.phase)) {
    threads.push_back(std::make_unique<YcsbThread>(plan, share, inserts));
    if (absl::Status status = threads.back()->Connect(); !status.ok()) return status;
  }
  const PutRecorder::Limits limits = LimitsFromNow(plan.phase, threads.size());
  for (const auto& thread : threads) thread->SetLimits(limits);
  {
    std::vector<std::jthread> running;
    for (const auto& thread : threads) running.emplace_back([&thread] { thread->Run(); });
  }
  YcsbResult result;
  uint64_t last = 0;
  for (const auto& thread : threads) {
    if (!thread->status().ok()) return thread->status();
    result.all.Merge(thread->all().latencies());
    last = std::max(last, thread->all().last_ns());
    for (size_t i = 0; i < workload::kYcsbOperations; ++i) {
      result.each[i].Merge(thread->each(i).latencies());
    }
  }
  result.seconds = SecondsOf(plan.phase, limits, last);
  return result;
}

}  // namespace lodgekv::server_bench
