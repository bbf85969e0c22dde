// A polling thread: takes the events of one completion queue and serves its calls.
//
// Each round takes the events that are ready, up to a limit; then the engine gets queued work:
// groups of single calls and batches from the batcher, short pages of scans. What is long goes to
// WorkThreads, and comes back to be delivered.
//
// INVARIANT  Everything but Start, RequestStop, Join, GiveBack and served() happens on the poller's
//            thread.
//            That thread also shuts the completion queue down, so that no operation starts on a
//            closed one.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "server/base/event.h"
#include "server/rpc/batcher.h"
#include "server/rpc/call.h"
#include "server/rpc/call_host.h"
#include "server/rpc/call_pool.h"
#include "server/rpc/kv_service.h"
#include "server/rpc/pending_answers.h"
#include "server/rpc/rpc_recorder.h"
#include "server/rpc/server_state.h"
#include "server/rpc/slow_request_log.h"
#include "server/rpc/work_queue.h"
#include "server/rpc/work_threads.h"

namespace lodgekv::server {

// Where the pollers leave what is long.
struct LongWork {
  WorkThreads& reads;   // pages of scans, and batches
  WorkThreads& writes;  // also all writes if a fence may wait for a disk
};

class Poller final : private CallHost {
 public:
  Poller(ServerState& state, KvService& service, LongWork long_work,
         std::unique_ptr<grpc::ServerCompletionQueue> queue);
  ~Poller();

  // For a server that this queue is registered with, and for services on it; before Start.
  grpc::ServerCompletionQueue& queue() { return *queue_; }
  void AlsoServe(QueuedService& service) { services_.push_back(&service); }

  // Call once the servers have started.
  void Start();
  // Call once the servers have shut down: the thread ends when all events have been handled.
  void RequestStop();
  void Join();

  const RpcRecorder& served() const { return recorder_; }

 private:
  class StopEvent final : public Event {
   public:
    explicit StopEvent(Poller& poller) : poller_(poller) {}
    void OnEvent(bool) override { poller_.stopping_ = true; }

   private:
    Poller& poller_;
  };
  // Calls have come back from WorkThreads.
  class BackEvent final : public Event {
   public:
    explicit BackEvent(Poller& poller) : poller_(poller) {}
    void OnEvent(bool) override { poller_.DeliverBack(); }

   private:
    Poller& poller_;
  };

  // CallHost, for the calls.
  void ListenFor(Method method) override { calls_.Listen(method, *this); }
  void Recycle(Call& call) override { calls_.Recycle(call); }
  bool closed() const override { return closed_; }
  void Enqueue(ReadCall& call) override { batcher_.Add(call); }
  void Enqueue(WriteCall& call) override;
  void Enqueue(BatchCall& call) override;
  void Enqueue(PageCall& call) override;
  void EnqueueUnparsed(BatchCall& call) override { batcher_.AddUnparsed(call); }
  void EnqueueRest(BatchCall& call) override;
  void GiveBack(Call& call) override;
  void AwaitDelivery(Call& call) override { pending_.Add(call); }
  void NoteDelivered(Call& call) override { pending_.Remove(call); }
  void NoteServed(const ServedCall& call) override;
  CheckContext check_context() const override {
    return {.limits = state_.limits(), .pool = state_.pool(), .now_unix_ms = now_unix_ms_};
  }
  ServerState& state() override { return state_; }
  RpcRecorder& recorder() override { return recorder_; }

  void Run();
  bool TakeEvents();
  bool Wait();
  void Serve();
  void ServePages();
  void DeliverBack();
  void Dispatch(void* tag, bool ok);
  bool Idle() const { return batcher_.empty() && pages_.empty(); }

  ServerState& state_;
  const LongWork long_work_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::vector<QueuedService*> services_;
  RpcRecorder recorder_;
  CallPool calls_;
  Batcher batcher_;
  WorkQueue<PageCall, 2> pages_;
  PendingAnswers pending_;
  SlowRequestLog slow_log_;
  // The time of the last event.
  uint64_t now_unix_ms_ = 0;
  bool stopping_ = false;
  bool closed_ = false;
  StopEvent stop_event_{*this};
  grpc::Alarm stop_alarm_;

  size_t away_ = 0;  // calls that are with WorkThreads, or on their way back
  std::mutex back_mutex_;
  CallList<Call> back_;       // guarded by back_mutex_
  bool back_coming_ = false;  // likewise: the event is on its way
  BackEvent back_event_{*this};
  grpc::Alarm back_alarm_;  // guarded by back_mutex_
  std::thread thread_;
};

}  // namespace lodgekv::server
