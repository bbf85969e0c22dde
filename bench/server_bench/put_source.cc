#include "bench/server_bench/put_source.h"

namespace lodgekv::server_bench {
namespace {

constexpr size_t kTextBytes = 4'096;
constexpr size_t kWordBytes = 16;
constexpr std::string_view kDigits = "0123456789abcdef";

void WriteHex(uint64_t word, char* out) {
  for (size_t i = 0; i < kWordBytes; ++i, word >>= 4) out[i] = kDigits[word & 15];
}

}  // namespace

PutSource::PutSource(uint64_t seed, uint64_t key_space)
    : random_(seed), key_space_(key_space), key_(kKeyBytes, '0'), text_(kTextBytes, '0') {
  for (size_t i = 0; i < kTextBytes; i += kWordBytes) WriteHex(random_.Next(), &text_[i]);
  Next();
}

void PutSource::NextBelow(uint64_t first, uint64_t count) {
  const uint64_t number = first + random_.Below(count);
  WriteHex(bench::Mix(2 * number + 1), key_.data());
  WriteHex(bench::Mix(2 * number + 2), key_.data() + kWordBytes);
  value_begin_ = random_.Below(kTextBytes - kValueBytes);
}

}  // namespace lodgekv::server_bench
