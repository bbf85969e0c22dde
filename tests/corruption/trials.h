// Damaged pools, tried one after the other in a process of its own: what becomes of a damage may be
// that the process dies, or never ends, and the next one is to be tried all the same.
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
  kQuarantined,  // answers are right or DATA_LOSS, and Check names what is wrong
  kNamed,        // every answer right, and Check names what is wrong
  kMissing,      // a key is answered as absent
  kWrong,        // a value is another, or a key is there that must not be
  kUnnamed,      // refused or DATA_LOSS, and no message names the place
  kDied,         // the process ended by a signal, or by itself
  kHung,
};
inline constexpr size_t kEffects = 9;
std::string_view EffectName(Effect effect);

struct Verdict {
  Effect effect = Effect::kNone;
  std::string message;  // what was said, or what is wrong; its first 400 bytes are kept
};

// verdicts[i] = try_one(i), which runs in a child process without threads of the caller's.
std::vector<Verdict> TryAll(size_t trials, const std::function<Verdict(size_t)>& try_one);

}  // namespace lodgekv::test
