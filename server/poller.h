// A polling thread: takes the events of one completion queue and serves the calls behind them.
//
// Each turn takes what is ready, up to a bound; then the single reads in hand go to the engine as
// one Read, and the single writes as one Write, so that they share fences (on a file: one sync).
// What arrived beyond a group's size waits in hand, counted by the admission, for the next turn.
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
#include <deque>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "index/engine.h"
#include "server/call.h"
#include "server/kv_service.h"
#include "server/rpc_recorder.h"
#include "server/server_state.h"

namespace lodgekv::server {

class GetCall;
class WriteCall;
class BatchCall;

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
  // The time when the last event came.
  uint64_t now_unix_ms() const { return now_unix_ms_; }
  CheckContext check_context() const {
    return {.limits = state_.limits(), .pool = state_.pool(), .now_unix_ms = now_unix_ms_};
  }
  void ListenFor(Method method);
  void Enqueue(GetCall* call) { reads_.push_back(call); }
  void Enqueue(WriteCall* call) { writes_.push_back(call); }
  void Enqueue(BatchCall* call) { batches_.push_back(call); }
  // Takes the object back, to use it again or, when its buffers hold about `bytes` and that is
  // much, to end it.
  void Recycle(Call* call, uint64_t bytes);
  // Of an operation of a write.
  void NoteOutcome(Outcome outcome);
  // For the metrics: counts the operation if it changed anything.
  void CountWrite(const WriteOp& op, const WriteResult& result);
  // True now and then: at most a few slow requests a second are worth a line.
  bool MayLogSlow(std::chrono::steady_clock::time_point now, uint64_t* suppressed);

 private:
  class StopEvent final : public Event {
   public:
    explicit StopEvent(Poller& poller) : poller_(poller) {}
    void OnEvent(bool) override { poller_.stopping_ = true; }

   private:
    Poller& poller_;
  };

  void Run();
  bool TakeEvents();
  void ServeReads();
  void ServeWrites();
  void ServeBatches();
  bool Idle() const { return reads_.empty() && writes_.empty() && batches_.empty(); }
  void Dispatch(void* tag, bool ok);

  ServerState& state_;
  KvService& service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  const std::vector<Method> methods_;
  RpcRecorder recorder_;

  std::deque<GetCall*> reads_;
  std::deque<WriteCall*> writes_;
  std::deque<BatchCall*> batches_;
  // Of one group; members for their capacity.
  std::vector<std::string_view> group_keys_;
  std::vector<ReadResult> group_reads_;
  std::vector<WriteOp> group_ops_;
  std::vector<WriteResult> group_writes_;
  std::vector<GetCall*> group_getters_;
  std::vector<WriteCall*> group_writers_;

  std::array<std::vector<std::unique_ptr<Call>>, kMethodCount> spare_;
  uint64_t now_unix_ms_ = 0;
  std::chrono::steady_clock::time_point slow_window_;
  uint64_t slow_in_window_ = 0;
  uint64_t slow_suppressed_ = 0;
  bool stopping_ = false;
  bool closed_ = false;
  StopEvent stop_event_{*this};
  grpc::Alarm stop_alarm_;
  std::thread thread_;
};

}  // namespace lodgekv::server
