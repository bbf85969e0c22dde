#include <memory>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "client/lodgectl/bench/free_slots.h"
#include "client/lodgectl/bench/lane.h"
#include "client/lodgectl/bench/open_loop.h"
#include "client/lodgectl/bench/slot.h"

namespace lodgekv::lodgectl {
namespace {

using workload::YcsbOperation;

struct Place {};  // of a message in flight

// INVARIANT: while a session lasts its own thread counts; else this lane's does.
class SessionLane final : public BenchLane {
 public:
  explicit SessionLane(const BenchLaneOptions& options)
      : options_(options),
        source_(options.plan, options.plan.seed + options.share.first_call, options.inserts) {
    client_ = client::Client::Create(options_.client);
  }

  absl::Status Connect() override {
    Open();
    return Exchange();
  }

  void Run(BenchSpan& span) override {
    for (uint64_t i = 0; i < options_.share.in_flight; ++i) places_.Add({});
    if (options_.plan.rate == 0) {
      for (Place place; !span.IsOver() && places_.Take(span, place);) Send(NowNs());
      return Finish();
    }
    LaneSchedule schedule(options_.plan, options_.share, span);
    BeginDueCalls(schedule, span, places_, [this](Place, uint64_t due_ns) { Send(due_ns); });
    Finish();
    CountNotSent(schedule, span, source_.chooser, tally_);
  }

 private:
  void Open() {
    const absl::Duration longest = options_.plan.duration + options_.client.timeout;
    session_ = client_->OpenSession(
        {.timeout = longest, .unanswered = std::max<uint64_t>(1, options_.share.in_flight)});
  }
  void Finish() { session_->Finish().IgnoreError(); }

  // An empty message, so that the connection is made.
  absl::Status Exchange() {
    absl::Status answer;
    const absl::Status sent =
        session_->Send({}, {}, [&](const auto& results) { answer = results.status(); });
    if (!sent.ok()) return sent;
    const absl::Status end = session_->Finish();
    Open();
    return answer.ok() ? end : answer;
  }

  void Send(uint64_t begin_ns) {
    std::vector<client::SessionOp> message;
    message.reserve(options_.plan.batch);
    for (uint64_t i = 0; i < options_.plan.batch; ++i) {
      message.emplace_back(client::BatchOp{
          source_.keys(source_.NextRecord()), std::string(source_.NextValue()), {}});
    }
    const absl::Status sent = session_->Send(
        message, {}, [this, begin_ns](auto results) { Count(begin_ns, std::move(results)); });
    if (sent.ok()) return;
    Finish();
    tally_.Failed(sent);
    places_.Add({});
    absl::SleepFor(kRest);
    Open();
  }

  void Count(uint64_t begin_ns, absl::StatusOr<std::vector<client::SessionResult>> results) {
    if (results.ok()) {
      BenchTally::Answer answer{.operation = YcsbOperation::kUpdate, .begin_ns = begin_ns};
      answer.operations = 0;
      for (const client::SessionResult& result : *results) {
        if (result.ok()) ++answer.operations;
        if (!result.ok()) tally_.OperationFailed(result.status());
      }
      tally_.Answered(answer, NowNs());
    } else {
      tally_.Failed(results.status());
    }
    places_.Add({});
  }

  BenchLaneOptions options_;
  BenchSource source_;
  std::unique_ptr<client::Client> client_;
  FreeSlots<Place> places_;
  std::unique_ptr<client::Session> session_;
};

}  // namespace

std::unique_ptr<BenchLane> MakeSessionLane(const BenchLaneOptions& options) {
  return std::make_unique<SessionLane>(options);
}

}  // namespace lodgekv::lodgectl
