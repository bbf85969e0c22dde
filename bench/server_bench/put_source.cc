#include "bench/server_bench/put_source.h"

namespace lodgekv::server_bench {
namespace {

constexpr size_t kBegins = 4'096;  // of values in the text
constexpr size_t kWordBytes = 16;
constexpr std::string_view kDigits = "0123456789abcdef";

void WriteHex(uint64_t word, char* out) {
  for (size_t i = 0; i < kWordBytes; ++i, word >>= 4) out[i] = kDigits[word & 15];
}

}  // namespace

PutSource::PutSource(uint64_t seed, uint64_t key_space, size_t value_bytes)
    : random_(seed),
      key_space_(key_space),
      value_bytes_(value_bytes),
      key_(kKeyBytes, '0'),
      text_((kBegins + value_bytes) / kWordBytes * kWordBytes + kWordBytes, '0') {
  for (size_t i = 0; i < text_.size(); i += kWordBytes) WriteHex(random_.Next(), &text_[i]);
  Next();
}

void PutSource::NextBelow(uint64_t first, uint64_t count) {
  const uint64_t number = first + random_.Below(count);
  WriteHex(bench::Mix(2 * number + 1), key_.data());
  WriteHex(bench::Mix(2 * number + 2), key_.data() + kWordBytes);
  value_begin_ = random_.Below(kBegins);
}

}  // namespace lodgekv::server_bench
