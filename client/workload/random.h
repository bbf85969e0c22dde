// Small, fast and seeded: the benchmark's keys and choices are the same in every run of one seed.
#pragma once

#include <cstdint>

namespace lodgekv::workload {

// A bijection of the 64-bit numbers that spreads every bit.
constexpr uint64_t Mix(uint64_t x) {
  x ^= x >> 32;
  x *= 0xe9846af9b1a615dULL;
  x ^= x >> 32;
  x *= 0xe9846af9b1a615dULL;
  x ^= x >> 28;
  return x;
}

// [0, bound) from 64 random bits.
constexpr uint64_t Scale(uint64_t random, uint64_t bound) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(random) * bound) >> 64);
}

class Random {
 public:
  explicit Random(uint64_t seed) : state_(Mix(seed ^ kStep)) {}

  uint64_t Next() { return Mix(state_ += kStep); }
  uint64_t Below(uint64_t bound) { return Scale(Next(), bound); }
  bool Percent(unsigned percent) { return Below(100) < percent; }

 private:
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15ULL;
  uint64_t state_;
};

}  // namespace lodgekv::workload
