// The keys of `lodgectl bench`, by number. All lie in a range of their own, and nothing outside it
// is ever read, written or deleted.
//
// - `bytes`: "lodgectl-bench/" and up to 16 hexadecimal digits, padded with dots.
// - `fixed64`: the 2^32 keys from ff ff ff fe 00 00 00 00 on.
//
// Different numbers have different keys as long as they are below most_keys(); larger ones begin
// again. Numbers that follow each other are scattered over the range.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lodgekv::lodgectl {

inline constexpr std::string_view kBenchPrefix = "lodgectl-bench/";
inline constexpr std::string_view kFixed64Prefix = "\xff\xff\xff\xfe";
inline constexpr size_t kFixed64Bytes = 8;

class BenchKeys {
 public:
  // key_bytes: more than the prefix has; 8 if `fixed64`.
  BenchKeys(bool fixed64, size_t key_bytes)
      : prefix_(fixed64 ? kFixed64Prefix : kBenchPrefix), key_bytes_(key_bytes) {}

  void Set(uint64_t number, std::string& key) const;
  std::string operator()(uint64_t number) const {
    std::string key;
    Set(number, key);
    return key;
  }

  // 0: 2^64.
  uint64_t most_keys() const;
  // Of all keys.
  std::string prefix() const { return std::string(prefix_); }

 private:
  bool is_fixed64() const { return key_bytes_ == kFixed64Bytes; }
  size_t digits() const;

  std::string_view prefix_;
  size_t key_bytes_;
};

}  // namespace lodgekv::lodgectl
