#include "tests/corruption/unseen.h"

#include "tests/engines/engine_rows.h"

namespace lodgekv::test {
namespace {

bool Applies(const Unseen& row, const EngineCase& engine_case, bool closed) {
  if (closed && row.when == When::kKilled) return false;
  const bool in_place = engine_case.fixed64() || engine_case.inline_pairs;
  switch (row.how) {
    case How::kAny: return true;
    case How::kBytes: return !in_place;
    case How::kInPlace: return in_place;
    case How::kBuffered: return engine_case.buffered;
  }
  return false;
}

}  // namespace

std::span<const Unseen> UnseenOf(std::string_view engine) {
  const EngineRows* rows = RowsOf(engine);
  return rows != nullptr ? rows->unseen : std::span<const Unseen>();
}

const Unseen* FindUnseen(const EngineCase& engine_case, bool closed, const Region& region,
                         uint64_t offset, Effect effect) {
  uint64_t at = offset - region.begin;
  if (region.unit_bytes != 0) at %= region.unit_bytes;
  const std::string_view name = region.name == "large records" ? "records" : region.name;
  for (const Unseen& row : UnseenOf(engine_case.engine->name)) {
    if (row.region == name && at >= row.begin && at < row.end && effect <= row.worst &&
        Applies(row, engine_case, closed)) {
      return &row;
    }
  }
  return nullptr;
}

}  // namespace lodgekv::test
