// What a call asks of the poller that serves it: to be queued for the engine, to be used again, and
// to have noted what became of it.
//
// INVARIANT  Called by the calls of one poller, on its thread only.
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

// A call that is about to be answered for good.
struct ServedCall {
  Method method;
  grpc::StatusCode code;
  uint64_t latency_ns;
  uint64_t held_bytes;
  // Of the groups that it was served in, and its share of that.
  Cost cost;
  Cost share;
  uint64_t group_operations;
};

class CallHost {
 public:
  // Lets another call wait for a client.
  virtual void ListenFor(Method method) = 0;
  // Takes the object back, to use it again.
  virtual void Recycle(Call& call) = 0;
  // No operation may start any more.
  virtual bool closed() const = 0;

  // What has been checked and admitted waits for its turn with the engine.
  virtual void Enqueue(ReadCall& call) = 0;
  virtual void Enqueue(WriteCall& call) = 0;
  virtual void Enqueue(BatchCall& call) = 0;
  virtual void Enqueue(PageCall& call) = 0;
  // A batch as it came waits for its turn to be opened.
  virtual void EnqueueUnopened(BatchCall& call) = 0;

  // The client has an answer to take, or has taken it.
  virtual void AwaitTaken(Call& call) = 0;
  virtual void NoteTaken(Call& call) = 0;
  // For the metrics and the log of slow requests.
  virtual void NoteServed(const ServedCall& call) = 0;

  // Its time is that of the last event.
  virtual CheckContext check_context() const = 0;
  virtual ServerState& state() = 0;
  virtual RpcRecorder& recorder() = 0;

 protected:
  ~CallHost() = default;
};

}  // namespace lodgekv::server
