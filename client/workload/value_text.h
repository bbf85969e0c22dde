// A text of random digits that values are parts of: each differs from the one before, and none has
// to be made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "client/workload/random.h"

namespace lodgekv::workload {

inline constexpr size_t kWordBytes = 16;

// 16 hexadecimal digits, the lowest first.
void WriteHex(uint64_t word, char* out);

class ValueText {
 public:
  // Of values of so many bytes.
  ValueText(Random& random, size_t value_bytes);

  // Where a value begins; At it, valid as long as this.
  uint64_t Draw(Random& random) const { return random.Below(kBegins); }
  std::string_view At(uint64_t begin) const {
    return std::string_view(text_).substr(begin, value_bytes_);
  }

 private:
  static constexpr size_t kBegins = 4'096;

  size_t value_bytes_;
  std::string text_;
};

}  // namespace lodgekv::workload
