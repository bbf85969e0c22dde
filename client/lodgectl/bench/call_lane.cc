#include <grpcpp/grpcpp.h>

#include <atomic>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "client/channel.h"
#include "client/lodgectl/bench/free_slots.h"
#include "client/lodgectl/bench/lane.h"
#include "client/lodgectl/bench/open_loop.h"
#include "client/lodgectl/bench/slot.h"

namespace lodgekv::lodgectl {
namespace {

// INVARIANT: the thread that receives counts, and in a closed loop begins calls; in an open loop
// another one begins them. Nobody else touches a slot.
class CallLane final : public BenchLane {
 public:
  explicit CallLane(const BenchLaneOptions& options)
      : options_(options),
        source_(options.plan, options.plan.seed + options.share.first_call, options.inserts),
        wire_{.source = source_, .timeout = options.client.timeout} {}

  ~CallLane() override {
    wire_.queue.Shutdown();
    void* tag = nullptr;
    for (bool ok = false; wire_.queue.Next(&tag, &ok);) continue;
  }

  absl::Status Connect() override;
  void Run(BenchSpan& span) override;

 private:
  void Send(BenchSlot& slot, uint64_t begin_ns) {
    ++in_flight_;
    slot.Begin(begin_ns);
  }
  // Until nothing is in flight and nothing more is begun.
  void Receive();
  // The event of a slot.
  void Take(BenchSlot& slot, bool ok);
  void CountAnswer(BenchSlot& slot, uint64_t now_ns);
  void CancelLate();

  const BenchLaneOptions options_;
  BenchSource source_;
  BenchWire wire_;
  std::vector<std::unique_ptr<v1::KvService::Stub>> stubs_;
  std::vector<std::unique_ptr<BenchSlot>> slots_;
  FreeSlots<BenchSlot*> free_;  // of an open loop
  BenchSpan* span_ = nullptr;
  std::atomic<uint64_t> in_flight_ = 0;
  std::atomic<bool> begins_more_ = false;  // the thread of an open loop
  bool cancelled_ = false;
};

absl::Status CallLane::Connect() {
  const auto deadline = absl::ToChronoTime(absl::Now() + options_.client.timeout);
  for (uint64_t i = 0; i < options_.share.connections; ++i) {
    const auto channel = client::MakeChannel(options_.client.server, options_.client);
    if (!channel->WaitForConnected(deadline)) {
      return absl::UnavailableError("a connection was not made in time");
    }
    stubs_.push_back(v1::KvService::NewStub(channel));
  }
  for (uint64_t i = 0; i < options_.share.in_flight; ++i) {
    slots_.push_back(std::make_unique<BenchSlot>(wire_, *stubs_[i % stubs_.size()]));
  }
  return absl::OkStatus();
}

void CallLane::Run(BenchSpan& span) {
  span_ = &span;
  if (options_.plan.rate == 0) {
    for (const auto& slot : slots_) Send(*slot, NowNs());
    return Receive();
  }
  for (const auto& slot : slots_) free_.Add(slot.get());
  LaneSchedule schedule(options_.plan, options_.share, span);
  begins_more_ = true;
  std::jthread sender([&] {
    BeginDueCalls(schedule, span, free_,
                  [this](BenchSlot* slot, uint64_t due_ns) { Send(*slot, due_ns); });
    begins_more_ = false;
  });
  Receive();
  sender.join();
  CountNotSent(schedule, span, source_.chooser, tally_);
}

void CallLane::Receive() {
  constexpr absl::Duration kLongestWait = absl::Milliseconds(100);
  while (begins_more_ || in_flight_ > 0) {
    void* tag = nullptr;
    bool ok = false;
    const auto until = absl::ToChronoTime(absl::Now() + kLongestWait);
    const auto next = wire_.queue.AsyncNext(&tag, &ok, until);
    if (next == grpc::CompletionQueue::GOT_EVENT) Take(*static_cast<BenchSlot*>(tag), ok);
    CancelLate();
  }
}

void CallLane::Take(BenchSlot& slot, bool ok) {
  const bool rested = slot.is_resting();
  if (!slot.Advance(ok)) return;
  const uint64_t now = NowNs();
  if (!rested) CountAnswer(slot, now);
  if (options_.plan.rate > 0) {
    --in_flight_;
    return free_.Add(&slot);
  }
  if (now >= span_->end_ns) {
    --in_flight_;
  } else if (!rested && slot.status().code() == absl::StatusCode::kUnavailable) {
    slot.Rest(kRest);
  } else {
    slot.Begin(now);
  }
}

void CallLane::CountAnswer(BenchSlot& slot, uint64_t now_ns) {
  if (slot.status().ok()) return tally_.Answered(slot.answer(), now_ns);
  if (cancelled_ && slot.status().code() == absl::StatusCode::kCancelled) {
    return tally_.Unanswered();
  }
  tally_.Failed(slot.status());
}

// Only in a run that was cut short is anybody waiting for the end.
void CallLane::CancelLate() {
  if (cancelled_ || begins_more_ || !span_->was_cut) return;
  if (NowNs() < span_->end_ns + absl::ToInt64Nanoseconds(kGrace)) return;
  cancelled_ = true;
  for (const auto& slot : slots_) slot->Cancel();
}

}  // namespace

std::unique_ptr<BenchLane> MakeCallLane(const BenchLaneOptions& options) {
  return std::make_unique<CallLane>(options);
}

}  // namespace lodgekv::lodgectl
