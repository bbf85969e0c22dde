// Which operations a pool of a key format supports, and when conditions hold: the same in every
// engine (index/engine.h).
#pragma once

#include <cstdint>
#include <string_view>

#include "index/engine.h"

namespace lodgekv {

inline constexpr uint64_t kLargestKeyBytes = 0xffff;
inline constexpr uint64_t kLargestValueBytes = uint64_t{16} << 20;

// C is a codec (index/node/codec.h).
template <class C>
bool IsKey(std::string_view text) {
  return C::kRecords ? !text.empty() && text.size() <= kLargestKeyBytes : text.size() == 8;
}

// Returns kOk, or kInvalidArgument.
template <class C>
Outcome CheckFormat(const WriteOp& op, const C& codec) {
  if (op.condition == Condition::kIfVersion && op.if_version == 0) return Outcome::kInvalidArgument;
  if (!IsKey<C>(op.key)) return Outcome::kInvalidArgument;
  bool versions = true;
  if constexpr (C::kRecords) {
    if (op.value.size() > kLargestValueBytes) return Outcome::kInvalidArgument;
    versions = !codec.inline_pairs();
  } else {
    if (op.kind == WriteKind::kPut && op.value.size() != 8) return Outcome::kInvalidArgument;
    versions = false;
  }
  const bool versioned = op.condition == Condition::kIfVersion || op.expiry_unix_ms != 0;
  return versioned && !versions ? Outcome::kInvalidArgument : Outcome::kOk;
}

// A key's current pair, as an operation finds it.
struct CurrentPair {
  bool exists = false;
  bool expired = false;
  uint64_t value_word = 0;
  uint64_t version = 0;

  bool live() const { return exists && !expired; }
};

// Sets the key's state in `result`. False: the condition does not hold, and the outcome is
// kConditionFailed.
inline bool CheckCondition(const WriteOp& op, const CurrentPair& current, WriteResult* result) {
  const bool found = current.live();
  result->found = found;
  const bool holds =
      op.condition == Condition::kNone || (op.condition == Condition::kIfAbsent && !found) ||
      (op.condition == Condition::kIfPresent && found) ||
      (op.condition == Condition::kIfVersion && found && current.version == op.if_version);
  if (holds) return true;
  result->outcome = Outcome::kConditionFailed;
  result->version = found ? current.version : 0;
  return false;
}

}  // namespace lodgekv
