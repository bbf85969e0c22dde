// Answers, and pages of scans, that are pending: handed to gRPC, and not yet read by the client.
//
// A call whose answer is pending for answer_timeout is cancelled; while the admission is under
// pressure, after a second if the client reads no answer of the connection.
//
// INVARIANT  The list is in the order of pending_since().
#pragma once

#include <cstdint>

#include "server/base/line_pace.h"
#include "server/rpc/call.h"
#include "server/rpc/call_list.h"
#include "server/rpc/rpc_recorder.h"
#include "server/rpc/server_state.h"

namespace lodgekv::server {

class PendingAnswers {
 public:
  // How late a cancellation may be.
  static constexpr int64_t kTickMs = 250;

  PendingAnswers(ServerState& state, RpcRecorder& recorder) : state_(state), recorder_(recorder) {}

  bool empty() const { return pending_.empty(); }
  void Add(Call& call) { pending_.PushBack(call); }
  void Remove(Call& call) { pending_.Remove(call); }
  // Checks at most once a tick.
  void CancelOverdue();

 private:
  // Limited, since clients cause these lines.
  static constexpr uint64_t kLinesPerSecond = 10;

  void Cancel(Call& call, Call::SteadyClock::time_point now);

  ServerState& state_;
  RpcRecorder& recorder_;
  CallList<Call> pending_;
  Call::SteadyClock::time_point next_check_;
  LinePace log_pace_{kLinesPerSecond};
};

}  // namespace lodgekv::server
