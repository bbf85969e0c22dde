// What a call needs of the poller that serves it: to be queued for the engine, to be recycled, to
// have its outcome recorded.
//
// INVARIANT  Used only by the calls of one poller, on its thread, but for what is said to be for
//            any thread.
#pragma once

#include <grpcpp/support/status.h>

#include <cstdint>

#include "index/cost.h"
#include "server/rpc/request_check.h"
#include "server/rpc/rpc_recorder.h"
#include "server/rpc/server_state.h"

namespace lodgekv::server {

class Call;
class ReadCall;
class WriteCall;
class BatchCall;
class PageCall;
class SessionCall;
class SessionTurn;
class Work;

// A call whose final answer is about to be sent.
struct ServedCall {
  Method method;
  grpc::StatusCode code;
  uint64_t latency_ns;
  uint64_t held_bytes;
  // Of the groups that it was part of, and its share of that.
  Cost cost;
  Cost share;
  uint64_t group_operations;
};

class CallHost {
 public:
  // Has another call object listen for a client.
  virtual void ListenFor(Method method) = 0;
  // Takes the object back for reuse.
  virtual void Recycle(Call& call) = 0;
  // No new operation may start.
  virtual bool closed() const = 0;

  // Queues a checked and admitted call for the engine.
  virtual void Enqueue(ReadCall& call) = 0;
  virtual void Enqueue(WriteCall& call) = 0;
  virtual void Enqueue(BatchCall& call) = 0;
  virtual void Enqueue(PageCall& call) = 0;
  // is_long: serving it takes as long as many single calls.
  virtual void Enqueue(SessionTurn& turn, bool is_long) = 0;
  // Queues a received batch to be parsed.
  virtual void EnqueueUnparsed(BatchCall& call) = 0;

  // Has a thread for what is long read the call's value.
  virtual void EnqueueLong(ReadCall& call) = 0;
  // Has a thread for what is long go on with a batch that has been begun.
  virtual void EnqueueRest(BatchCall& call) = 0;
  // From a thread of WorkThreads: has the poller's thread deliver it. For any thread.
  virtual void GiveBack(Work& work) = 0;

  // A session that is to be told when the server drains, until it is closed. Closed: whether it was
  // opened.
  virtual void NoteOpened(SessionCall& session) = 0;
  virtual bool NoteClosed(SessionCall& session) = 0;

  // The answer was handed to gRPC; it was delivered, or the call has ended.
  virtual void AwaitDelivery(Call& call) = 0;
  virtual void NoteDelivered(Call& call) = 0;
  // For the metrics and the slow-request log.
  virtual void NoteServed(const ServedCall& call) = 0;

  // Its time is that of the last event.
  virtual CheckContext check_context() const = 0;
  // Both for any thread; of the recorder, RecordRefusal alone.
  virtual ServerState& state() = 0;
  virtual RpcRecorder& recorder() = 0;

 protected:
  ~CallHost() = default;
};

}  // namespace lodgekv::server
