// Groups single calls: the queued single reads go to the engine as one Read, and the queued single
// writes as one Write, so that they share fences (on a file: one sync). Batches are served one by
// one.
//
// Calls beyond a group's size stay queued for the next round; they count as in flight. Calls of
// light connections (admission.h) have a queue of their own, which is served in turn with that of
// the others, so that they do not wait for everything that another client has queued.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "index/engine.h"
#include "server/rpc/call_host.h"
#include "server/rpc/call_kinds.h"
#include "server/rpc/server_state.h"
#include "server/rpc/session_group.h"
#include "server/rpc/session_turn.h"
#include "server/rpc/work_queue.h"
#include "server/rpc/write_group.h"

namespace lodgekv::server {

class Batcher {
 public:
  explicit Batcher(CallHost& host)
      : host_(host),
        state_(host.state()),
        writes_at_hand_(host.state()),
        sessions_at_hand_(host.state(), host.recorder()) {}

  void Add(ReadCall& call) { reads_.Add(call, ListOf(call)); }
  void Add(WriteCall& call) { writes_.Add(call, ListOf(call)); }
  void Add(BatchCall& call) { batches_.Add(call, ListOf(call)); }
  void Add(SessionTurn& turn) { turns_.Add(turn, ListOf(turn)); }
  // Parses others at once if there are too many unparsed bytes.
  void AddUnparsed(BatchCall& call);

  bool empty() const {
    return reads_.empty() && writes_.empty() && unparsed_.empty() && batches_.empty() &&
           turns_.empty();
  }

  // One round: a group of reads, one of writes, one of turns of sessions, and a batch.
  void Serve(uint64_t now_unix_ms);

 private:
  void TakeReaders();
  void ServeReads(uint64_t now_unix_ms);
  void ServeWrites(uint64_t now_unix_ms);
  void ServeTurns(uint64_t now_unix_ms);
  void ParseBatch();
  void ParseBatches();
  void ServeBatch(uint64_t now_unix_ms);

  CallHost& host_;
  ServerState& state_;
  WorkQueue<ReadCall, 2> reads_;
  WorkQueue<WriteCall, 2> writes_;
  WorkQueue<BatchCall, 2> unparsed_;
  uint64_t unparsed_bytes_ = 0;
  WorkQueue<BatchCall, 2> batches_;
  WorkQueue<SessionTurn, 2> turns_;
  // Of one group; members to keep their capacity.
  std::vector<ReadCall*> readers_;
  std::vector<std::string_view> keys_;
  std::vector<ReadResult> read_results_;
  WriteGroup writes_at_hand_;
  SessionGroup sessions_at_hand_;
};

}  // namespace lodgekv::server
