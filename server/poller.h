// A polling thread: takes the events of one completion queue and serves the calls behind them.
//
// Each turn takes what is ready, up to a bound; then the single reads in hand go to the engine as
// one Read, and the single writes as one Write, so that they share fences (on a file: one sync).
// What arrived beyond a group's size waits in hand, counted by the admission, for the next turn.
// What waits of connections that hold little is taken in turns with what waits of the others, so
// that a call of theirs does not wait for all that another has in hand.
//
// An answer, or a page of a scan, that its client has not taken by the end of answer_timeout is
// cancelled; while the admission is under pressure, after a second on a connection that takes none.
//
// INVARIANT  Everything but Start, RequestStop, Join and recorder() happens on the poller's thread.
//            That thread also shuts the completion queue down, so that no operation starts on a
//            closed one.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "index/engine.h"
#include "server/call.h"
#include "server/call_list.h"
#include "server/kv_service.h"
#include "server/line_pace.h"
#include "server/rpc_recorder.h"
#include "server/scan_pager.h"
#include "server/server_state.h"

namespace lodgekv::server {

class GetCall;
class WriteCall;
class BatchCall;
class ScanCall;

class Poller {
 public:
  Poller(ServerState& state, KvService& service, std::unique_ptr<grpc::ServerCompletionQueue> queue,
         std::vector<Method> methods);
  ~Poller();

  // Once the server has started.
  void Start();
  // Once the server has shut down: the thread ends when all events are out.
  void RequestStop();
  void Join();

  const RpcRecorder& recorder() const { return recorder_; }

  // For calls.
  ServerState& state() { return state_; }
  KvService& service() { return service_; }
  grpc::ServerCompletionQueue* queue() { return queue_.get(); }
  RpcRecorder& own_recorder() { return recorder_; }
  // No operation may start any more.
  bool closed() const { return closed_; }
  bool stopping() const { return stopping_; }
  // The time when the last event came.
  uint64_t now_unix_ms() const { return now_unix_ms_; }
  CheckContext check_context() const {
    return {.limits = state_.limits(), .pool = state_.pool(), .now_unix_ms = now_unix_ms_};
  }
  void ListenFor(Method method);
  void Enqueue(GetCall& call);
  void Enqueue(WriteCall& call);
  void EnqueueUnopened(BatchCall& call);
  void Enqueue(BatchCall& call);
  void Enqueue(ScanCall& call);
  // The client has an answer to take, or has taken it.
  void AwaitTaken(Call& call) { offered_.PushBack(call); }
  void NoteTaken(Call& call) { offered_.Remove(call); }
  // Takes the object back, to use it again.
  void Recycle(Call* call);
  // Where pages are made.
  PageMessage& page() { return page_; }
  // Of an operation of a write.
  void NoteOutcome(Outcome outcome);
  // For the metrics: counts the operation if it changed anything.
  void CountWrite(const WriteOp& op, const WriteResult& result);
  LinePace& slow_log() { return slow_log_; }

 private:
  // In the log, of what clients cause.
  static constexpr uint64_t kLinesPerSecond = 10;

  class StopEvent final : public Event {
   public:
    explicit StopEvent(Poller& poller) : poller_(poller) {}
    void OnEvent(bool) override { poller_.stopping_ = true; }

   private:
    Poller& poller_;
  };

  void Run();
  bool TakeEvents();
  bool Wait();
  void ServeReads();
  void ServeWrites();
  void OpenBatch();
  void OpenBatches();
  void ServeBatches();
  void ServePages();
  void CancelUntaken();
  void CancelUntaken(Call& call, Call::SteadyClock::time_point now);
  bool Idle() const {
    return reads_.empty() && writes_.empty() && unopened_.empty() && batches_.empty() &&
           pages_.empty();
  }
  void Dispatch(void* tag, bool ok);

  ServerState& state_;
  KvService& service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  const std::vector<Method> methods_;
  RpcRecorder recorder_;

  WorkQueue<GetCall, 2> reads_;
  WorkQueue<WriteCall, 2> writes_;
  WorkQueue<BatchCall, 2> unopened_;
  uint64_t unopened_bytes_ = 0;
  WorkQueue<BatchCall, 2> batches_;
  WorkQueue<ScanCall, 3> pages_;
  CallList waiting_pages_;  // for room
  CallList offered_;        // since when rises
  Call::SteadyClock::time_point look_at_offered_;
  // Of one group; members for their capacity.
  std::vector<std::string_view> group_keys_;
  std::vector<ReadResult> group_reads_;
  std::vector<WriteOp> group_ops_;
  std::vector<WriteResult> group_writes_;
  std::vector<uint64_t> group_weights_;
  std::vector<GetCall*> group_getters_;
  std::vector<WriteCall*> group_writers_;

  std::array<std::vector<std::unique_ptr<Call>>, kMethodCount> spare_;
  uint64_t now_unix_ms_ = 0;
  PageMessage page_;
  LinePace slow_log_{kLinesPerSecond};
  LinePace untaken_log_{kLinesPerSecond};
  bool stopping_ = false;
  bool closed_ = false;
  StopEvent stop_event_{*this};
  grpc::Alarm stop_alarm_;
  std::thread thread_;
};

}  // namespace lodgekv::server
