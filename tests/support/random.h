// Seeded randomness and sizes of tests. One seed drives a whole test program; a failure prints it
// and the environment variable LODGEKV_TEST_SEED sets it, so that any failure can be repeated.
// LODGEKV_TEST_SCALE multiplies the number of operations (default 1), for long runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>

namespace lodgekv::test {

#if defined(__SANITIZE_THREAD__)
inline constexpr unsigned kSanitizerSlowdown = 20;
#elif defined(__SANITIZE_ADDRESS__)
inline constexpr unsigned kSanitizerSlowdown = 8;
#else
inline constexpr unsigned kSanitizerSlowdown = 1;
#endif

// The seed of this run.
uint64_t TestSeed();
// For SCOPED_TRACE: how to repeat the failure.
std::string SeedNote();
// `operations` for a plain build, scaled by the environment and down in sanitizer builds; at least
// 1.
uint64_t Scaled(uint64_t operations);

// Mixes the bits of `x`: equal inputs give equal outputs, similar ones different outputs.
uint64_t MixBits(uint64_t x);

class Random {
 public:
  // Streams with different names are independent.
  explicit Random(std::string_view stream, uint64_t index = 0);

  uint64_t Next() { return generator_(); }
  uint64_t Below(uint64_t bound) { return generator_() % bound; }  // [0, bound)
  uint64_t Between(uint64_t low, uint64_t high) { return low + Below(high - low + 1); }
  bool OneIn(uint64_t n) { return Below(n) == 0; }
  bool Percent(unsigned percent) { return Below(100) < percent; }
  double Unit() { return static_cast<double>(generator_() >> 11) * 0x1p-53; }  // [0, 1)

 private:
  std::mt19937_64 generator_;
};

}  // namespace lodgekv::test
