#include "tests/corruption/unseen.h"

#include <cstddef>

namespace lodgekv::test {
namespace {

constexpr uint64_t kToTheEnd = UINT64_MAX;

// A leaf: commit and watermark, two next pointers, fingerprints, low fence, slots.
constexpr Unseen kUnseen[] = {
    {"lodgetree", "nodes", 0, 16, When::kKilled, How::kAny, Effect::kWrong, Standing::kNamed,
     "bitmap and watermark of a leaf"},
    {"lodgetree", "nodes", 16, 32, When::kKilled, How::kAny, Effect::kMissing, Standing::kOpen,
     "next pointer of a leaf that leads past others"},
    {"lodgetree", "nodes", 32, 64, When::kKilled, How::kAny, Effect::kWrong, Standing::kOpen,
     "fingerprints of a leaf: recovery believes them, a put makes a second pair of the key"},
    {"lodgetree", "nodes", 64, 80, When::kKilled, How::kAny, Effect::kWrong, Standing::kOpen,
     "low fence of a leaf, changed within its order"},
    {"lodgetree", "nodes", 80, 512, When::kKilled, How::kInPlace, Effect::kWrong, Standing::kNamed,
     "pairs that lie in their slots"},
    {"lodgetree", "nodes", 80, 512, When::kKilled, How::kBytes, Effect::kWrong, Standing::kOpen,
     "pairs with a record: a key is not found, or an earlier record of it is"},
    {"lodgetree", "logs", 0, kToTheEnd, When::kKilled, How::kAny, Effect::kWrong, Standing::kNamed,
     "last group of a log: as if it had never been fenced"},
    {"lodgetree", "engine area", 8, 16, When::kKilled, How::kAny, Effect::kDied, Standing::kOpen,
     "size of the logs: those of another size are passed over, or recovery aborts"},
    {"lodgetree", "records", 0, kToTheEnd, When::kAlways, How::kAny, Effect::kMissing,
     Standing::kOpen, "key of a record: it is not found, and no read reports damage"},
    {"lodgetree", "records", 0, kToTheEnd, When::kAlways, How::kAny, Effect::kHung, Standing::kOpen,
     "record of the last group of a log: its entry is dropped, the value before it is back; length "
     "of a value that becomes one above 4 KiB: it is not compared with the record's space; a leaf "
     "that splits by the key of a damaged record: Check waits for itself"},
    {"lodgetree", "large records", 0, kToTheEnd, When::kAlways, How::kAny, Effect::kWrong,
     Standing::kNamed, "value above 4 KiB: one read in sixteen is verified"},
};

bool Applies(const Unseen& row, const EngineCase& engine_case, bool closed) {
  const bool in_place = engine_case.fixed64() || engine_case.inline_pairs;
  return row.engine == engine_case.engine->name && (row.when == When::kAlways || !closed) &&
         (row.how == How::kAny || (row.how == How::kInPlace) == in_place);
}

}  // namespace

std::span<const Unseen> AllUnseen() { return kUnseen; }

const Unseen* FindUnseen(const EngineCase& engine_case, bool closed, const Region& region,
                         uint64_t offset, Effect effect) {
  uint64_t at = offset - region.begin;
  if (region.unit_bytes != 0) at %= region.unit_bytes;
  for (const Unseen& row : kUnseen) {
    if (row.region == region.name && at >= row.begin && at < row.end && effect <= row.worst &&
        Applies(row, engine_case, closed)) {
      return &row;
    }
  }
  return nullptr;
}

}  // namespace lodgekv::test
