// Damaged pools, each tried in a child process: a damage may crash the process or make it hang, and
// the next one must still be tried.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lodgekv::test {

enum class Effect : uint8_t {
  kNone,         // every answer right, nothing found: the damage lies where nothing counts
  kRefused,      // the pool is not opened, or the process ends in order at a page that cannot be
                 // read, and the message says why
  kQuarantined,  // answers are right or DATA_LOSS, and Check names the cause
  kNamed,        // every answer is right, and Check names the damage
  kMissing,      // an existing key is reported as absent
  kWrong,        // a wrong value, or a key that should not exist
  kUnnamed,      // refused or DATA_LOSS, but no message names the place
  kDied,         // the process ended by a signal, or by itself
  kHung,
};
inline constexpr size_t kEffects = 9;
std::string_view EffectName(Effect effect);

struct Verdict {
  Effect effect = Effect::kNone;
  std::string message;  // the error message; its first 400 bytes are kept
};

// verdicts[i] = try_one(i), which runs in a child process without the caller's threads.
std::vector<Verdict> TryAll(size_t trials, const std::function<Verdict(size_t)>& try_one);

}  // namespace lodgekv::test
