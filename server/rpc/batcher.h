// Brings single calls together: the single reads in hand go to the engine as one Read, and the
// single writes as one Write, so that they share fences (on a file: one sync). Batches go one by
// one.
//
// What arrived beyond a group's size waits in hand, counted by the admission, for the next turn.
// What waits of connections that hold little is taken in turns with what waits of the others, so
// that a call of theirs does not wait for all that another has in hand.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "index/engine.h"
#include "server/rpc/call_kinds.h"
#include "server/rpc/rpc_recorder.h"
#include "server/rpc/server_state.h"
#include "server/rpc/work_queue.h"

namespace lodgekv::server {

class Batcher {
 public:
  Batcher(ServerState& state, RpcRecorder& recorder) : state_(state), recorder_(recorder) {}

  void Add(ReadCall& call) { reads_.Add(call, ListOf(call)); }
  void Add(WriteCall& call) { writes_.Add(call, ListOf(call)); }
  void Add(BatchCall& call) { batches_.Add(call, ListOf(call)); }
  // Opens others at once where what is not opened has become too much.
  void AddUnopened(BatchCall& call);

  bool empty() const {
    return reads_.empty() && writes_.empty() && unopened_.empty() && batches_.empty();
  }

  // One turn: a group of reads, one of writes, and a batch.
  void Serve(uint64_t now_unix_ms);

 private:
  void ServeReads(uint64_t now_unix_ms);
  void ServeWrites(uint64_t now_unix_ms);
  void AnswerWrites(const Cost& cost);
  void OpenBatch();
  void OpenBatches();
  void ServeBatch();

  ServerState& state_;
  RpcRecorder& recorder_;
  WorkQueue<ReadCall, 2> reads_;
  WorkQueue<WriteCall, 2> writes_;
  WorkQueue<BatchCall, 2> unopened_;
  uint64_t unopened_bytes_ = 0;
  WorkQueue<BatchCall, 2> batches_;
  // Of one group; members for their capacity.
  std::vector<ReadCall*> getters_;
  std::vector<std::string_view> keys_;
  std::vector<ReadResult> read_results_;
  std::vector<WriteCall*> writers_;
  std::vector<WriteOp> ops_;
  std::vector<WriteResult> write_results_;
  std::vector<uint64_t> weights_;
};

}  // namespace lodgekv::server
