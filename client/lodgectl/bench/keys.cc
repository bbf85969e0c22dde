#include "client/lodgectl/bench/keys.h"

#include <algorithm>

namespace lodgekv::lodgectl {
namespace {

constexpr size_t kMostDigits = 16;
constexpr unsigned kDigitBits = 4;
constexpr uint64_t kFixed64Keys = uint64_t{1} << 32;
// Odd: numbers that differ in their lowest n bits have products that differ in theirs.
constexpr uint64_t kScatter = 0x9e3779b97f4a7c15ULL;

}  // namespace

size_t BenchKeys::digits() const { return std::min(kMostDigits, key_bytes_ - prefix_.size()); }

uint64_t BenchKeys::most_keys() const {
  if (is_fixed64()) return kFixed64Keys;
  return digits() == kMostDigits ? 0 : uint64_t{1} << (kDigitBits * digits());
}

void BenchKeys::Set(uint64_t number, std::string& key) const {
  uint64_t rest = number * kScatter;
  key.assign(prefix_);
  if (is_fixed64()) {
    for (int shift = 24; shift >= 0; shift -= 8) key.push_back(static_cast<char>(rest >> shift));
    return;
  }
  key.resize(key_bytes_, '.');
  for (size_t i = digits(); i > 0; --i, rest >>= kDigitBits) {
    key[prefix_.size() + i - 1] = "0123456789abcdef"[rest & 15];
  }
}

}  // namespace lodgekv::lodgectl
