// One function for each path and way, in whose name callgrind finds both:
// CountedCall<path * kWays + way>.
#pragma once

#include "absl/functional/function_ref.h"
#include "bench/path_length/path.h"

namespace lodgekv::bench {

using CountedCall = void (*)(absl::FunctionRef<void()> call);

constexpr size_t SlotOf(Path path, Way way) {
  return static_cast<size_t>(path) * kWays + static_cast<size_t>(way);
}

// What runs inside it is counted.
CountedCall CountedCallOf(Path path, Way way);

}  // namespace lodgekv::bench
