#include "index/pmem/internal/journal_marks.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "index/pmem/crc32c.h"

namespace lodgekv::pmem {
namespace {

constexpr uint64_t kGroupBits = 48;
constexpr uint64_t kGroupMask = (uint64_t{1} << kGroupBits) - 1;

constexpr char kWhatToDo[] =
    "; acknowledged writes may be in neither: restore both as they were at one moment, or put the "
    "one in its place that belongs to the other";

}  // namespace

uint64_t EncodeMark(uint64_t group) {
  const uint64_t covered = group & kGroupMask;
  return covered | uint64_t{Crc32c(0, &covered, sizeof covered)} << kGroupBits;
}

absl::StatusOr<uint64_t> DecodeMark(uint64_t word) {
  const uint64_t group = word & kGroupMask;
  if (EncodeMark(group) == word) return group;
  return absl::DataLossError(absl::StrFormat(
      "its header is damaged: a mark of its journal, 0x%016x, has wrong check bits", word));
}

absl::Status CheckMoment(const JournalMarks& marks, const JournalReader& reader) {
  if (marks.checkpoint != 0 && marks.checkpoint < reader.begin()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "it belongs to this run of the pool, but to a later moment: it begins with group ",
        reader.begin(), ", and this copy of the pool needs those from ", marks.checkpoint, " on",
        kWhatToDo));
  }
  const uint64_t groups = std::max(marks.checkpoint, marks.groups);
  if (groups <= reader.end()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "it belongs to this run of the pool, but to an earlier moment: it ends with group ",
      reader.end() - 1, ", and this copy of the pool was made after group ", groups - 1,
      kWhatToDo));
}

}  // namespace lodgekv::pmem
