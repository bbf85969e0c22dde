#include "bench/engine_bench/key_numbers.h"

#include <algorithm>
#include <bit>

#include "client/workload/random.h"

namespace lodgekv::bench {
namespace {

constexpr unsigned kUseBits = 2;
constexpr uint64_t kAbsentBit = 2;
constexpr uint64_t kSequentialBit = 1;
constexpr unsigned kMinBits = 10;
constexpr unsigned kMaxDenseBits =
    42;  // 8 + 42 + 2 bits, and sequential keys after them: 16 digits

}  // namespace

KeyNumbers KeyNumbers::Dense(uint64_t seed, uint64_t capacity) {
  const unsigned needed = std::bit_width(std::max<uint64_t>(capacity, 1) - 1);
  const unsigned bits = std::clamp(needed, kMinBits, kMaxDenseBits);
  return KeyNumbers(seed, bits, uint64_t{kRanges} << (bits + kUseBits));
}

uint64_t KeyNumbers::Number(const KeyRef& key) const {
  const uint64_t absent = key.absent ? kAbsentBit : 0;
  if (key.distribution == Distribution::kSequential) {
    return sequential_base_ + (key.index << kUseBits) + (absent | kSequentialBit);
  }
  const uint64_t range = Range(key.index, key.distribution);
  return ((range << bits_ | Permute(key.index)) << kUseBits) | absent;
}

uint64_t KeyNumbers::Range(uint64_t index, Distribution distribution) const {
  if (distribution == Distribution::kBurst) index /= kBurstKeys;
  const uint64_t hash = workload::Mix(workload::Mix(index + 1) ^ seed_);
  if (distribution != Distribution::kSkewed) return workload::Scale(hash, kRanges);
  const uint64_t within = workload::Mix(hash + 1);
  if (workload::Scale(hash, 100) < kHotPercent) return workload::Scale(within, kHotRanges);
  return kHotRanges + workload::Scale(within, kRanges - kHotRanges);
}

// Each step is invertible on numbers of bits_ bits, so the whole is.
uint64_t KeyNumbers::Permute(uint64_t index) const {
  const uint64_t mask = (uint64_t{1} << bits_) - 1;
  const unsigned half = (bits_ + 1) / 2;
  uint64_t x = (index + seed_) & mask;
  for (const uint64_t factor :
       {0x9e3779b97f4a7c15ULL, 0xd6e8feb86659fd93ULL, 0xc2b2ae3d27d4eb4fULL}) {
    x ^= x >> half;
    x = (x * factor) & mask;
  }
  return x ^ (x >> half);
}

}  // namespace lodgekv::bench
