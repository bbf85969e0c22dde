// Single writes that go to the engine as one Write, so that they share fences (on a file: one
// sync).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "index/engine.h"
#include "server/rpc/call_kinds.h"
#include "server/rpc/server_state.h"
#include "server/rpc/work_queue.h"

namespace lodgekv::server {

class WriteGroup {
 public:
  explicit WriteGroup(ServerState& state) : state_(state) {}

  // A new group, of the first calls that are queued.
  void Take(WorkQueue<WriteCall, 2>& queue);
  // Applies the group. Returns how many operations it had: those whose deadline has passed, or
  // whose request is invalid, have failed.
  uint64_t Apply(uint64_t now_unix_ms);
  // All calls, to be delivered.
  std::span<WriteCall* const> calls() const { return calls_; }

 private:
  void Prepare();
  void ShareCost(const Cost& cost);

  ServerState& state_;
  // Of one group; members to keep their capacity.
  std::vector<WriteCall*> calls_;
  std::vector<WriteCall*> applied_;
  std::vector<WriteOp> ops_;
  std::vector<WriteResult> results_;
  std::vector<uint64_t> weights_;
};

}  // namespace lodgekv::server
