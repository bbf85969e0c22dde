#include "tests/corruption/unseen.h"

#include <cstddef>

namespace lodgekv::test {
namespace {

constexpr uint64_t kToTheEnd = UINT64_MAX;

// A leaf: commit and watermark, two next pointers, fingerprints, low fence, slots.
constexpr Unseen kUnseen[] = {
    {"lodgetree", "nodes", 80, 512, When::kKilled, How::kInPlace, Effect::kWrong, Standing::kNamed,
     "pairs that lie in their slots"},
    {"lodgetree", "logs", 0, kToTheEnd, When::kKilled, How::kAny, Effect::kWrong, Standing::kNamed,
     "last group of a log: as if it had never been fenced"},
    {"lodgetree", "records", 0, kToTheEnd, When::kKilled, How::kAny, Effect::kWrong,
     Standing::kNamed,
     "record that only a log knows: as if its group had never been fenced, or as if another record "
     "had its space"},
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
