// Verifying what a pool that was closed cleanly holds, where Open left that to whoever uses the
// pool (verify_at_use). Of any other pool all is verified, and these calls do nothing.
//
// Open has checked header, engine area and chunk table. Nodes and logs have a checksum a chunk, and
// the seal stays until the pool is put to use: up to there it is refused again as it was.
//
// Rules for its users
//  1. Of a chunk of nodes or logs nothing is believed before it is verified, and nothing is stored
//     in it. A unit is read before it is changed, so EnsureVerified before each read does for both.
//     Chunks that are taken from now on count as verified.
//  2. Nothing at all is stored, in the engine area neither, before Pool::BeginUse or FinishVerify.
//     (The pool's own calls that change it put it to use.)
// So an engine calls FinishVerify in recovery, before its first store; or BeginUse, and then
// EnsureVerified wherever it comes by, with VerifySome behind its first answers. If the process
// then ends before all is verified, and not cleanly, the rest is believed as after any crash.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/pmem/medium.h"

namespace lodgekv::pmem {

class ChunkSeal;
class Pool;

class PoolContents {
 public:
  explicit PoolContents(Pool& pool) : pool_(pool) {}

  // DataLoss: the chunk at `offset` does not hold what was sealed. Several threads: one verifies,
  // the others wait. One relaxed load once all is verified.
  absl::Status EnsureVerified(Offset offset) {
    if (unverified_.load(std::memory_order_relaxed) == 0) [[likely]]
      return absl::OkStatus();
    return Verify(offset);
  }
  // One more chunk; false: there is none left that nobody has begun.
  absl::StatusOr<bool> VerifySome();
  // All that is left, on PoolOptions::threads, and then Pool::BeginUse. Names the first damaged
  // chunk.
  absl::Status FinishVerify();

 private:
  friend class Pool;
  absl::Status Verify(Offset offset);
  absl::Status WithName(const absl::Status& status) const;

  Pool& pool_;
  ChunkSeal* seal_ = nullptr;  // of a pool that is open
  std::string name_;           // as messages begin: "pool PATH: "; empty in an arena
  bool at_use_ = false;        // Open verifies nothing
  unsigned threads_ = 1;
  std::atomic<uint32_t> unverified_{0};  // chunks
};

}  // namespace lodgekv::pmem
