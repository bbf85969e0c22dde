// Answers, and pages of scans, that clients have not taken yet.
//
// What its client has not taken by the end of answer_timeout is cancelled; while the admission is
// under pressure, after a second on a connection that takes none.
//
// INVARIANT  Since when they are offered rises along the list.
#pragma once

#include <cstdint>

#include "server/base/line_pace.h"
#include "server/rpc/call.h"
#include "server/rpc/call_list.h"
#include "server/rpc/rpc_recorder.h"
#include "server/rpc/server_state.h"

namespace lodgekv::server {

class OfferedAnswers {
 public:
  // How late one may be cancelled.
  static constexpr int64_t kTickMs = 250;

  OfferedAnswers(ServerState& state, RpcRecorder& recorder) : state_(state), recorder_(recorder) {}

  bool empty() const { return offered_.empty(); }
  void Add(Call& call) { offered_.PushBack(call); }
  void Remove(Call& call) { offered_.Remove(call); }
  // At most once a tick it looks at them.
  void CancelUntaken();

 private:
  // In the log, of what clients cause.
  static constexpr uint64_t kLinesPerSecond = 10;

  void Cancel(Call& call, Call::SteadyClock::time_point now);

  ServerState& state_;
  RpcRecorder& recorder_;
  CallList<Call> offered_;
  Call::SteadyClock::time_point look_at_;
  LinePace log_pace_{kLinesPerSecond};
};

}  // namespace lodgekv::server
