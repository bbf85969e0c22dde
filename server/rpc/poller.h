// A polling thread: takes the events of one completion queue and serves its calls.
//
// Each round takes the events that are ready, up to a limit; then the engine gets queued work:
// groups of single calls and batches from the batcher, short pages of scans. What is long goes to
// WorkThreads, and comes back to be delivered.
//
// INVARIANT  Everything but Start, RequestDrain, RequestStop, Join, GiveBack and served() happens
//            on the poller's thread.
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

#include "absl/container/flat_hash_set.h"
#include "server/base/event.h"
#include "server/rpc/batcher.h"
#include "server/rpc/call.h"
#include "server/rpc/call_host.h"
#include "server/rpc/call_pool.h"
#include "server/rpc/kv_service.h"
#include "server/rpc/pending_answers.h"
#include "server/rpc/rpc_recorder.h"
#include "server/rpc/server_state.h"
#include "server/rpc/session_call.h"
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
  // Has the open sessions end. Call once the server's phase is draining.
  void RequestDrain();
  // Call once the servers have shut down: the thread ends when all events have been handled.
  void RequestStop();
  void Join();

  const RpcRecorder& served() const { return recorder_; }

 private:
  // CallHost, for the calls.
  void ListenFor(Method method) override { calls_.Listen(method, *this); }
  void Recycle(Call& call) override { calls_.Recycle(call); }
  bool closed() const override { return closed_; }
  void Enqueue(ReadCall& call) override { batcher_.Add(call); }
  void Enqueue(WriteCall& call) override;
  void Enqueue(BatchCall& call) override;
  void Enqueue(PageCall& call) override;
  void Enqueue(SessionTurn& turn, bool is_long) override;
  void EnqueueUnparsed(BatchCall& call) override { batcher_.AddUnparsed(call); }
  void EnqueueLong(ReadCall& call) override;
  void EnqueueRest(BatchCall& call) override;
  void GiveBack(Work& work) override;
  void NoteOpened(SessionCall& session) override { sessions_.insert(&session); }
  bool NoteClosed(SessionCall& session) override { return sessions_.erase(&session) != 0; }
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
  // The events that the poller sends itself.
  void OnDrain(bool ok);
  void OnStop(bool) { stopping_ = true; }
  void OnBack(bool ok);
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
  absl::flat_hash_set<SessionCall*> sessions_;  // open ones
  MemberEvent<Poller, &Poller::OnDrain> drain_event_{*this};
  grpc::Alarm drain_alarm_;
  MemberEvent<Poller, &Poller::OnStop> stop_event_{*this};
  grpc::Alarm stop_alarm_;

  size_t away_ = 0;  // what is with WorkThreads, or on its way back
  std::mutex back_mutex_;
  CallList<Work> back_;       // guarded by back_mutex_
  bool back_coming_ = false;  // likewise: the event is on its way
  MemberEvent<Poller, &Poller::OnBack> back_event_{*this};
  grpc::Alarm back_alarm_;  // guarded by back_mutex_
  std::thread thread_;
};

}  // namespace lodgekv::server
