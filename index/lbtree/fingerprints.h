// The search of a block's 14 fingerprints at once (LB+-Tree 3.1, SimdSearch of Alg. 1).
#pragma once

#include <cstdint>

#include "index/lbtree/layout.h"
#include "index/node/tag_match.h"

namespace lodgekv::lbtree {

// Bit i: slot i has this fingerprint, whether it counts or not. `header`: a header's two words, on
// the medium or in DRAM. They may be changing: the caller validates.
inline uint32_t MatchFingerprints(const void* header, uint8_t fingerprint) {
  const auto* bytes = static_cast<const uint8_t*>(header);
  return static_cast<uint32_t>(MatchTags<sizeof(Header)>(bytes, fingerprint)) >>
         media::kFirstFingerprintByte;
}

}  // namespace lodgekv::lbtree
