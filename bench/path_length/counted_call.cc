#include "bench/path_length/counted_call.h"

#include <array>
#include <utility>

namespace lodgekv::bench {
namespace {

template <size_t slot>
[[gnu::noinline]] void Counted(absl::FunctionRef<void()> call) {
  call();
  // Each slot has code of its own, which is not left by a jump into the callee.
  asm volatile("" : : "i"(slot) : "memory");
}

template <size_t... slots>
constexpr std::array<CountedCall, sizeof...(slots)> AllCounted(std::index_sequence<slots...>) {
  return {&Counted<slots>...};
}

}  // namespace

CountedCall CountedCallOf(Path path, Way way) {
  static constexpr auto kCalls = AllCounted(std::make_index_sequence<kPaths * kWays>());
  return kCalls[SlotOf(path, way)];
}

}  // namespace lodgekv::bench
