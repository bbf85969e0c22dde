#include "server/rpc/pending_answers.h"

#include <algorithm>
#include <chrono>

#include "server/base/log.h"

namespace lodgekv::server {
namespace {

constexpr std::chrono::milliseconds kTimeoutUnderPressure{1'000};

}  // namespace

// Under pressure, too, a client that still reads answers has the full timeout: its answers are
// queued one after the other.
void PendingAnswers::CancelOverdue() {
  if (pending_.empty()) return;
  const auto now = Call::SteadyClock::now();
  if (now < next_check_) return;
  next_check_ = now + std::chrono::milliseconds(kTickMs);
  const std::chrono::milliseconds timeout(state_.config().answer_timeout_ms);
  const bool pressure = state_.admission().UnderPressure(now);
  const auto least = pressure ? std::min(timeout, kTimeoutUnderPressure) : timeout;
  for (Call* call = pending_.first(); call != nullptr && now - call->pending_since() >= least;) {
    Call* const next = CallList<Call>::Next(*call);
    if (now - call->pending_since() >= timeout || call->ConnectionReadNothingSince(now - least)) {
      Cancel(*call, now);
    }
    call = next;
  }
}

void PendingAnswers::Cancel(Call& call, Call::SteadyClock::time_point now) {
  pending_.Remove(call);
  call.Cancel();
  recorder_.RecordUnread();
  uint64_t left_out = 0;
  if (!log_pace_.Due(&left_out)) return;
  const auto waited =
      std::chrono::duration_cast<std::chrono::milliseconds>(now - call.pending_since());
  Log(LogLevel::kWarning, "a client does not read its answer: the call is cancelled",
      {{"rpc", kMethodNames[static_cast<size_t>(call.method())]},
       {"client", call.connection().name},
       {"waited_ms", static_cast<uint64_t>(waited.count())},
       {"not_logged_before", left_out}});
}

}  // namespace lodgekv::server
