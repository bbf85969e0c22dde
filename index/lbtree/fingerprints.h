// The search of a block's 14 fingerprints at once (LB+-Tree 3.1, SimdSearch of Alg. 1), and a
// scalar twin that tests compare it with.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "index/lbtree/layout.h"

namespace lodgekv::lbtree {

// Bit i: slot i has this fingerprint, whether it counts or not. `header` is 16-byte aligned and may
// be changing: the caller validates.
inline uint32_t MatchFingerprints(const media::Word* header, uint8_t fingerprint) {
  const __m128i bytes = _mm_load_si128(reinterpret_cast<const __m128i*>(header));
  const __m128i wanted = _mm_set1_epi8(static_cast<char>(fingerprint));
  const auto equal = static_cast<uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, wanted)));
  return equal >> media::kFirstFingerprintByte;
}

inline uint32_t MatchFingerprintsScalar(const Header& header, uint8_t fingerprint) {
  uint32_t equal = 0;
  for (unsigned slot = 0; slot < kBlockSlots; ++slot) {
    equal |= static_cast<uint32_t>(header.FingerprintAt(slot) == fingerprint) << slot;
  }
  return equal;
}

}  // namespace lodgekv::lbtree
