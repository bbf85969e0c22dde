// A large array on the medium. A new generation of it is built beside the current one, and replaces
// it by one store. Meanwhile the current one is read and, by its tree's own protocol, changed. Its
// crash table is in index/node/README.md.
//
// A tree builds a generation in four calls, in the background if it likes:
//
//   Stage(bytes, policy, &staged)     space, as the pool has it
//   Write(staged, at, from, bytes)    until the content is whole; what is not written is arbitrary
//   Commit(staged)                    durable, and the one that readers find
//   or Drop(staged)                   it is not wanted after all
//
// Invariants
//  1. The root is 0, or leads to a generation that was completely durable before the root was
//     stored.
//  2. A generation's space is freed only when a root that leads to another one is durable, and no
//     reader that could have found it is left.
//  3. A generation that no root leads to is not marked: recovery frees its space.
//
// Any thread may call Current. Stage to Commit, or to Drop, belong to one thread, and only one
// generation may be in the making at a time. Recover belongs to recovery.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "index/node/reclaimer.h"
#include "index/pmem/pool.h"
#include "index/pmem/record_slab.h"

namespace lodgekv {

namespace media {

// At the beginning of a generation's space. The content begins with the next block of 256 bytes.
struct GenerationHeader {
  pmem::Word checksum;  // CRC32C over pool id, the header's offset and `bytes`
  pmem::Word bytes;     // of the content
};

}  // namespace media

class TwoGenerations {
 public:
  // 256-byte aligned.
  struct Content {
    char* data = nullptr;  // null: there is no generation
    uint64_t bytes = 0;
  };
  // Not committed yet.
  struct Staged {
    pmem::Offset space = 0;
    uint64_t bytes = 0;
  };

  // `root`: a word of the engine area, a checked word (node/checked_word.h).
  TwoGenerations(pmem::Pool& pool, pmem::RecordSlab& slab, Reclaimer& reclaimer, pmem::Word& root)
      : pool_(pool), slab_(slab), reclaimer_(reclaimer), root_(root) {}

  // False: the pool has no room.
  bool Stage(uint64_t bytes, pmem::ReservePolicy policy, Staged* staged);
  // Stores and flushes: if each call writes whole lines, no line is flushed twice.
  void Write(const Staged& staged, uint64_t at, const void* from, uint64_t bytes);
  // Not inside an EpochGuard. False: a sync has failed, and which generation a crash leaves is not
  // known; readers still find the old one.
  // `publish` is called with the new one durable and Current, before the old one is retired: who
  // has made anything of that for readers replaces it there.
  bool Commit(
      const Staged& staged, absl::FunctionRef<void()> publish = [] {});
  void Drop(const Staged& staged) { slab_.Free(staged.space); }
  // From here on there is no generation; `*space` of the old one is the caller's, 0 if there was
  // none. False: a sync has failed. Like Stage to Commit.
  bool Clear(pmem::Offset* space);

  // The current generation; valid as long as the caller's EpochGuard is held.
  Content Current() const { return ContentOf(current_.load(std::memory_order_acquire)); }
  // Bytes of the slab that it occupies, for Check.
  uint64_t space_bytes() const;

  // Recovery: finds the current generation and marks its space, before FinishMark of the slab frees
  // what is not marked. Opening the pool has made the root durable as it is found. DataLoss if the
  // root or the header is damaged.
  absl::Status Recover(std::string_view engine);

 private:
  media::GenerationHeader& HeaderOf(pmem::Offset space) const {
    return *pool_.At<media::GenerationHeader>(space);
  }
  Content ContentOf(pmem::Offset space) const;
  uint64_t ChecksumOf(pmem::Offset space, uint64_t bytes) const;
  void WriteHeader(const Staged& staged);
  void Retire(pmem::Offset space);

  pmem::Pool& pool_;
  pmem::RecordSlab& slab_;
  Reclaimer& reclaimer_;
  pmem::Word& root_;
  std::atomic<pmem::Offset> current_{0};  // the root's value, once that is durable
};

}  // namespace lodgekv
