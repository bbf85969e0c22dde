#include "server/rpc/offered_answers.h"

#include <algorithm>
#include <chrono>

#include "server/base/log.h"

namespace lodgekv::server {
namespace {

constexpr std::chrono::milliseconds kTimeoutUnderPressure{1'000};

}  // namespace

// Under pressure whoever still takes answers keeps its time: its answers wait for each other.
void OfferedAnswers::CancelUntaken() {
  if (offered_.empty()) return;
  const auto now = Call::SteadyClock::now();
  if (now < look_at_) return;
  look_at_ = now + std::chrono::milliseconds(kTickMs);
  const std::chrono::milliseconds timeout(state_.config().answer_timeout_ms);
  const bool pressure = state_.admission().UnderPressure(now);
  const auto least = pressure ? std::min(timeout, kTimeoutUnderPressure) : timeout;
  for (Call* call = offered_.first(); call != nullptr && now - call->offered() >= least;) {
    Call* const behind = CallList<Call>::Behind(*call);
    if (now - call->offered() >= timeout || call->ConnectionTookNothingSince(now - least)) {
      Cancel(*call, now);
    }
    call = behind;
  }
}

void OfferedAnswers::Cancel(Call& call, Call::SteadyClock::time_point now) {
  offered_.Remove(call);
  call.Cancel();
  recorder_.RecordUntaken();
  uint64_t left_out = 0;
  if (!log_pace_.Due(&left_out)) return;
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(now - call.offered());
  Log(LogLevel::kWarning, "a client does not read its answer: the call is cancelled",
      {{"rpc", kMethodNames[static_cast<size_t>(call.method())]},
       {"client", call.connection().name},
       {"waited_ms", static_cast<uint64_t>(waited.count())},
       {"not_logged_before", left_out}});
}

}  // namespace lodgekv::server
