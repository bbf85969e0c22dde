// Replay: stores the content of a journal's groups to the pool.
#pragma once

#include <cstdint>
#include <map>

#include "absl/status/status.h"
#include "index/pmem/internal/journal_group.h"
#include "index/pmem/internal/journal_reader.h"
#include "index/pmem/medium.h"
#include "index/pmem/pool.h"

namespace lodgekv::pmem {

// Which lines were returned to libpmemobj, and when: their earlier content in the journal is not
// replayed. Numbers ascend from entry to entry.
class RevokedLines {
 public:
  // [begin, end) was revoked by entry `number`, the latest so far.
  void Add(uint64_t begin, uint64_t end, uint64_t number);
  // Whether an entry after `number` has revoked `line`.
  bool RevokedAfter(uint64_t line, uint64_t number) const;

 private:
  struct Stretch {
    uint64_t end = 0;
    uint64_t number = 0;
  };
  std::map<uint64_t, Stretch> stretches_;  // by begin; they do not overlap
};

// Stores and flushes; the caller fences before it drops the journal. `reader` has found the groups.
// DataLoss if an entry is invalid.
absl::Status ReplayJournal(JournalReader& reader, Medium& medium, char* base, uint64_t pool_bytes,
                           const ForeignWords& foreign, JournalReplay* replay);

}  // namespace lodgekv::pmem
