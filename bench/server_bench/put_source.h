// The records to put: keys of 32 bytes, drawn uniformly from a key space, values of 100 unless told
// otherwise. The same for each server. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "client/workload/random.h"
#include "client/workload/value_text.h"

namespace lodgekv::server_bench {

inline constexpr size_t kKeyBytes = 32;
inline constexpr size_t kValueBytes = 100;

class PutSource {
 public:
  PutSource(uint64_t seed, uint64_t key_space, size_t value_bytes = kValueBytes);

  // Advances to the next record.
  void Next() { NextBelow(0, key_space_); }
  // The same, of a part of the key space.
  void NextBelow(uint64_t first, uint64_t count);
  // Of the current record; valid until Next.
  std::string_view key() const { return key_; }
  std::string_view value() const { return text_.At(value_begin_); }

 private:
  workload::Random random_;
  const uint64_t key_space_;
  std::string key_;
  workload::ValueText text_;
  uint64_t value_begin_ = 0;
};

}  // namespace lodgekv::server_bench
