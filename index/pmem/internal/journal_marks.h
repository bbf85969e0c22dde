// What a pool says about the groups of its journal, so that it is not replayed with the journal of
// another moment of the same session. Two words of the pool's header, each 0 if nothing is known:
// before the first session, and in pools that were left by earlier versions.
//
// Invariants, after a crash at any point:
// - the checkpoint mark is not below the group from which the journal replays: it is stored when a
//   checkpoint begins, and its page is on the medium before the journal says so. So an older pool
//   is recognized: the groups below may be missing in it;
// - neither mark is above the group that follows the journal's last: a mark is stored when all
//   groups below it are durable. So an older journal is recognized: it lacks groups of which the
//   pool may have a part;
// - no group of the journal has the line of the marks: a replay would set them back.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/pmem/internal/journal_reader.h"

namespace lodgekv::pmem {

struct JournalMarks {
  uint64_t checkpoint = 0;  // the pool had all groups below it when a checkpoint ended
  uint64_t groups = 0;      // the journal has had all groups below it
};

// The word of a mark: bits 0..47 the number of a group, bits 48..63 check bits; 0 for 0.
uint64_t EncodeMark(uint64_t group);
// DataLoss if the word is damaged.
absl::StatusOr<uint64_t> DecodeMark(uint64_t word);

// FailedPrecondition if pool and journal are of different moments. `reader` has found the groups.
absl::Status CheckMoment(const JournalMarks& marks, const JournalReader& reader);

}  // namespace lodgekv::pmem
