#include "index/art/byte_search.h"

namespace lodgekv::art {

ByteMasks CompareBytesScalar(const uint8_t* bytes, uint8_t byte) {
  ByteMasks masks{0, 0};
  for (unsigned i = 0; i < 16; ++i) {
    masks.less |= static_cast<uint32_t>(bytes[i] < byte) << i;
    masks.equal |= static_cast<uint32_t>(bytes[i] == byte) << i;
  }
  return masks;
}

#if defined(__SANITIZE_THREAD__)
const CompareBytesFunction CompareBytes = CompareBytesScalar;
#else
const CompareBytesFunction CompareBytes = CompareBytesSse2;
#endif

}  // namespace lodgekv::art
