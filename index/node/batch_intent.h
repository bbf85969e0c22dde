// The intent of an atomic batch on the medium, for engines without a log: a recovery that finds an
// intent applies all of it.
//
// Its crash table is in index/node/README.md. Between the store of the root and its clearing nobody
// else writes to the batch's keys (node/key_locks.h), and no record that the body names is freed:
// so applying an operation twice has the same effect as once.
//
// Thread-safe except for Find, which is for recovery.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "index/node/codec.h"
#include "index/node/recovery_tasks.h"
#include "index/pmem/pool.h"
#include "index/pmem/record_slab.h"

namespace lodgekv {

namespace media {

// One operation of an intent.
struct IntendedOp {
  pmem::Word key;  // of the pair that is put, or of the pair that a delete removes
  pmem::Word value;
  pmem::Word remove;  // 1: a delete
};

// Followed by `count` IntendedOps.
struct IntentHeader {
  pmem::Word checksum;  // CRC32C over pool id, the body's offset and all that follows
  pmem::Word count;
  pmem::Word has_applied_index;  // 0 or 1
  pmem::Word applied_index;
};

}  // namespace media

struct IntendedOp {
  Pair pair;
  bool remove;
};

class BatchIntents {
 public:
  static constexpr unsigned kRoots = 16;  // concurrent batches; others wait
  static constexpr size_t kMostOps = 1024;

  // A reserved or committed body.
  struct Intent {
    pmem::Offset body = 0;
    unsigned root = kRoots;
  };
  // An intent found by recovery.
  struct Found {
    Intent intent;
    std::vector<IntendedOp> ops;
    std::optional<uint64_t> applied_index;
  };

  // `roots`: kRoots words of the engine area, checked words (node/checked_word.h).
  BatchIntents(pmem::Pool& pool, pmem::RecordSlab& slab, std::span<pmem::Word> roots)
      : pool_(pool), slab_(slab), roots_(roots) {}

  // Allocates space for `ops` operations (at most kMostOps); a batch of deletes may use the
  // reserve, so that a full pool can be emptied. False: there is none.
  bool Allocate(size_t ops, pmem::ReservePolicy policy, Intent* intent);
  // Frees what was reserved and not committed.
  void Drop(Intent& intent);
  // Steps 1 and 2; this thread has flushed the records of `ops`. Durable on return.
  void Commit(Intent& intent, std::span<const IntendedOp> ops,
              std::optional<uint64_t> applied_index);
  // Step 3.
  void Retire(Intent& intent);

  // Recovery: returns the committed intents, with their bodies marked. They are durable: a body is
  // before its root is stored, and the roots since the pool was opened. DataLoss if a root or a
  // body is damaged.
  absl::StatusOr<std::vector<Found>> Find(std::string_view engine);

 private:
  unsigned TakeRoot();
  uint32_t ChecksumOf(pmem::Offset body, std::span<const uint64_t> words) const;
  absl::Status Read(std::string_view engine, Found* found);

  pmem::Pool& pool_;
  pmem::RecordSlab& slab_;
  const std::span<pmem::Word> roots_;
  std::atomic<uint32_t> taken_{0};  // bit i: root i is in use
};

}  // namespace lodgekv
