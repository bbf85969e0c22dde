#include "server/call.h"

#include <utility>

#include "lodgekv/v1/kv.pb.h"
#include "server/log.h"
#include "server/poller.h"
#include "server/status_map.h"

namespace lodgekv::server {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr const char* kCostTrailer = "lodgekv-cost-bin";

std::string SerializeCost(const Cost& cost, uint64_t operations, const Cost& share) {
  v1::Cost message;
  message.set_lines_flushed(cost.lines_flushed);
  message.set_fences(cost.fences);
  message.set_media_writes_256b(cost.media_writes_256b);
  message.set_bytes_stored(cost.bytes_stored);
  message.set_group_operations(operations);
  v1::CostShare& own = *message.mutable_share();
  own.set_lines_flushed(share.lines_flushed);
  own.set_fences(share.fences);
  own.set_media_writes_256b(share.media_writes_256b);
  own.set_bytes_stored(share.bytes_stored);
  return message.SerializeAsString();
}

}  // namespace

bool Call::Admit(uint64_t operations, uint64_t bytes) {
  start_ = SteadyClock::now();
  ServerState& state = poller_.state();
  switch (state.phase()) {
    case Phase::kServing: break;
    case Phase::kRecovering: Answer(Recovering()); return false;
    case Phase::kDraining: Answer(Draining()); return false;
  }
  Admission& admission = state.admission();
  switch (admission.Enter(operations, bytes)) {
    case Admission::Verdict::kAdmitted: break;
    case Admission::Verdict::kTooManyOperations:
      Answer(
          Overloaded("TOO_MANY_OPERATIONS", "max_inflight_operations", admission.max_operations()));
      return false;
    case Admission::Verdict::kTooManyBytes:
      Answer(Overloaded("TOO_MANY_BYTES", "max_inflight_size", admission.max_bytes()));
      return false;
  }
  held_operations_ = operations;
  held_bytes_ = bytes;
  return true;
}

void Call::Hold(uint64_t bytes) {
  poller_.state().admission().Grow(bytes);
  held_bytes_ += bytes;
}

void Call::GiveBack(uint64_t bytes) {
  poller_.state().admission().Leave(0, bytes);
  held_bytes_ -= bytes;
}

void Call::Finished(grpc::StatusCode code, bool want_cost) {
  if (want_cost) {
    context_->AddTrailingMetadata(kCostTrailer, SerializeCost(cost_, group_operations_, share_));
  }
  const auto now = SteadyClock::now();
  const auto latency = std::chrono::duration_cast<std::chrono::nanoseconds>(now - start_).count();
  poller_.own_recorder().Record(method_, code, static_cast<uint64_t>(latency));
  poller_.own_recorder().RecordCost(method_, share_);
  const uint64_t slow_ms = poller_.state().config().slow_request_ms;
  if (slow_ms == 0 || latency < static_cast<int64_t>(slow_ms) * 1'000'000) return;
  uint64_t suppressed = 0;
  if (!poller_.MayLogSlow(now, &suppressed)) return;
  Log(LogLevel::kWarning, "slow request",
      {{"rpc", kMethodNames[static_cast<size_t>(method_)]},
       {"code", CodeName(code)},
       {"latency_us", static_cast<uint64_t>(latency / 1000)},
       {"held_bytes", held_bytes_},
       {"lines_flushed", cost_.lines_flushed},
       {"fences", cost_.fences},
       {"media_writes_256b", cost_.media_writes_256b},
       {"group_operations", group_operations_},
       {"share_lines_flushed", share_.lines_flushed},
       {"share_fences", share_.fences},
       {"share_media_writes_256b", share_.media_writes_256b},
       {"not_logged_before", suppressed}});
}

void Call::Release() {
  const uint64_t bytes = std::exchange(held_bytes_, 0);
  const uint64_t operations = std::exchange(held_operations_, 0);
  if (operations != 0 || bytes != 0) poller_.state().admission().Leave(operations, bytes);
  cost_ = {};
  share_ = {};
  group_operations_ = 0;
  poller_.Recycle(this, bytes);
}

}  // namespace lodgekv::server
