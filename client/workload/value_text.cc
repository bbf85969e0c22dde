#include "client/workload/value_text.h"

namespace lodgekv::workload {

void WriteHex(uint64_t word, char* out) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (size_t i = 0; i < kWordBytes; ++i, word >>= 4) out[i] = kDigits[word & 15];
}

ValueText::ValueText(Random& random, size_t value_bytes)
    : value_bytes_(value_bytes),
      text_((kBegins + value_bytes) / kWordBytes * kWordBytes + kWordBytes, '0') {
  for (size_t i = 0; i < text_.size(); i += kWordBytes) WriteHex(random.Next(), &text_[i]);
}

}  // namespace lodgekv::workload
