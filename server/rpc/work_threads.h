// Threads for what is long, so that the short calls of the pollers do not wait behind it: pages of
// scans, large batches and values, and every write where a fence waits for a disk. They use no
// operation of gRPC's, so that the pollers stay the only threads that wait in it
// (docs/decisions/0031): a call comes from its poller, and goes back to it to be delivered.
//
// INVARIANT  A call belongs to its poller or to these threads, never to both.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/rpc/call_kinds.h"
#include "server/rpc/page_queue.h"
#include "server/rpc/rpc_recorder.h"
#include "server/rpc/server_state.h"
#include "server/rpc/session_group.h"
#include "server/rpc/session_turn.h"
#include "server/rpc/work_queue.h"
#include "server/rpc/write_group.h"

namespace lodgekv::server {

class WorkThreads {
 public:
  // `name` is what the operating system shows, up to 15 characters. `nice`: by how much these
  // threads give way to the others (nice(2)).
  WorkThreads(ServerState& state, const std::string& name, size_t threads, int nice = 0);
  // When no call is queued or worked on any more.
  ~WorkThreads();
  WorkThreads(const WorkThreads&) = delete;
  WorkThreads& operator=(const WorkThreads&) = delete;

  // By the pollers, once the store serves.
  void Add(ReadCall& call);
  void Add(WriteCall& call);
  void Add(BatchCall& call);
  void Add(PageCall& call);
  void Add(SessionTurn& turn);

  // From now on no page waits for room in the admission.
  void BeginStop();

  // Of the groups of writes.
  const RpcRecorder& served() const { return recorder_; }

 private:
  enum class Kind { kRead, kWrites, kBatch, kPage, kTurns };
  // What one thread works on.
  struct AtHand {
    WriteGroup writes;
    SessionGroup sessions;
  };

  void Run();
  void AwaitWork(std::unique_lock<std::mutex>& lock);
  void DoNext(std::unique_lock<std::mutex>& lock, AtHand& at_hand);
  bool IsQueued(Kind kind) const;
  bool AnyQueued() const;
  void ReadValue(std::unique_lock<std::mutex>& lock);
  void ApplyGroup(std::unique_lock<std::mutex>& lock, WriteGroup& group);
  void ServeBatch(std::unique_lock<std::mutex>& lock);
  void ReadPage(std::unique_lock<std::mutex>& lock);
  void ServeTurns(std::unique_lock<std::mutex>& lock, SessionGroup& group);

  ServerState& state_;
  RpcRecorder recorder_;
  std::mutex mutex_;
  std::condition_variable wake_;
  // All guarded by mutex_.
  WorkQueue<ReadCall, 2> reads_;
  WorkQueue<WriteCall, 2> writes_;
  WorkQueue<BatchCall, 2> batches_;
  PageQueue pages_;
  WorkQueue<SessionTurn, 2> turns_;
  size_t turn_ = 0;  // the kind that is served next, in turn
  bool stopping_ = false;
  bool end_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace lodgekv::server
