// The pair that a put will store, with its record if it needs one: staged before any lock is
// acquired, finished under the lock with its sequence number, linked by the engine's commit.
#pragma once

#include <cstdint>
#include <type_traits>

#include "index/engine.h"
#include "index/node/codec.h"
#include "index/node/record.h"
#include "index/pmem/pool.h"
#include "index/pmem/record_slab.h"

namespace lodgekv {

// Replaces the record in codecs without records.
struct NoRecord {
  static constexpr pmem::Offset offset = 0;
  static constexpr uint32_t crc = 0;
};

template <class C>
struct StagedPair {
  Pair pair{};
  [[no_unique_address]] std::conditional_t<C::kRecords, StagedRecord, NoRecord> record{};
};

// kOk; or kPoolFull, then nothing was allocated.
template <class C>
Outcome StagePair(pmem::Pool& pool, pmem::RecordSlab& slab, const C& codec, const WriteOp& op,
                  const typename C::Key& key, StagedPair<C>* staged) {
  staged->pair.key = key.word;
  if constexpr (C::kRecords) {
    if (codec.InlineWord(op.key, op.value, &staged->pair.value)) return Outcome::kOk;
    staged->record =
        StageRecord(pool, slab, op.key, op.value, op.expiry_unix_ms, pmem::ReservePolicy::kKeep);
    if (staged->record.offset == 0) return Outcome::kPoolFull;
    staged->pair.value = C::RecordWord(key.word, staged->record.offset, key.hash);
  } else {
    staged->pair.value = KeyWord(op.value, 0);
  }
  return Outcome::kOk;
}

// Frees a record that was never linked.
template <class C>
void DiscardStaged(pmem::RecordSlab& slab, StagedPair<C>* staged) {
  if constexpr (C::kRecords) {
    if (staged->record.offset != 0) slab.Free(staged->record.offset);
    staged->record.offset = 0;
  }
}

}  // namespace lodgekv
