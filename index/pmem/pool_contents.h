// Verifies the contents of a pool that was closed cleanly, where Open left that to the user of the
// pool (verify_at_use). In any other pool everything is verified already, and these calls do
// nothing.
//
// Open has checked header, engine area and chunk table. Each chunk of nodes or logs has a checksum,
// and the seal stays until the pool is put to use: until then a damaged pool is left as it was, and
// refused again.
//
// Rules for its users
//  1. Nothing in a chunk of nodes or logs is believed before the chunk is verified, and nothing is
//     stored in it. A unit is read before it is changed, so EnsureVerified before each read covers
//     both. Chunks that are acquired from now on count as verified.
//  2. Nothing at all is stored, not even in the engine area, before Pool::BeginUse or FinishVerify.
//     (The pool's own calls that change it put it to use.)
// So an engine calls FinishVerify in recovery, before its first store; or BeginUse, and then
// EnsureVerified before each access, with VerifySome in the background after its first answers. If
// the process then ends before all is verified, and not cleanly, the rest is believed as after any
// crash.
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

  // DataLoss: the content of the chunk at `offset` is not what was sealed. Of several threads one
  // verifies, and the others wait. Once all is verified, this costs one relaxed load.
  absl::Status EnsureVerified(Offset offset) {
    if (unverified_.load(std::memory_order_relaxed) == 0) [[likely]]
      return absl::OkStatus();
    return Verify(offset);
  }
  // Verifies one more chunk; false: every chunk is verified, or another thread has started on it.
  absl::StatusOr<bool> VerifySome();
  // Verifies all that is left, on PoolOptions::threads, and then calls Pool::BeginUse. Names the
  // first damaged chunk.
  absl::Status FinishVerify();

 private:
  friend class Pool;
  absl::Status Verify(Offset offset);
  absl::Status WithName(const absl::Status& status) const;

  Pool& pool_;
  ChunkSeal* seal_ = nullptr;  // of an open pool
  std::string name_;           // prefix of messages: "pool PATH: "; empty in an arena
  bool at_use_ = false;        // Open verifies nothing
  unsigned threads_ = 1;
  std::atomic<uint32_t> unverified_{0};  // chunks
};

}  // namespace lodgekv::pmem
