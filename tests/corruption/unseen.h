// Where damage can change an answer; the rows are in tests/engines. docs/crash_model.md documents
// each for users; a row that nothing needs any more fails the test.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tests/corruption/victim.h"

namespace lodgekv::test {

enum class When : uint8_t { kKilled, kAlways };  // a pool that was not closed cleanly; any pool
// Pairs: all, with records alone, in the slot, in an engine with spare buffers (engine_case.h).
enum class How : uint8_t { kAny, kBytes, kInPlace, kBuffered };
// Detecting it would cost each write or read (kNamed); or it should be fixed (kOpen).
enum class Standing : uint8_t { kNamed, kOpen };

inline constexpr uint64_t kToTheEnd = UINT64_MAX;  // of the region

struct Unseen {
  std::string_view region;
  uint64_t begin = 0;  // bytes of the unit, or of the region if it has no units
  uint64_t end = 0;
  When when = When::kKilled;
  How how = How::kAny;
  Effect worst = Effect::kMissing;  // this effect or a lesser one
  Standing standing = Standing::kNamed;
  std::string_view what;
};

std::span<const Unseen> UnseenOf(std::string_view engine);

// The row that covers the effect of a damage; null: the effect is not allowed.
const Unseen* FindUnseen(const EngineCase& engine_case, bool closed, const Region& region,
                         uint64_t offset, Effect effect);

}  // namespace lodgekv::test
