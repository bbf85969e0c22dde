// The checksum of a group of the journal: CRC-64 (ECMA), chainable.
//
// Not CRC32C: engines and pool put that at the end of what they store. Two such records, each with
// its own, differ by a multiple of the polynomial, so to a CRC32C of the group they are alike. Then
// a group would count of which one sector was not written, and holds a whole older record in the
// place of the new one.
#pragma once

#include <isa-l/crc64.h>

#include <cstddef>
#include <cstdint>

namespace lodgekv::pmem {

inline uint64_t GroupCrc(uint64_t seed, const void* data, size_t bytes) {
  return crc64_ecma_refl(seed, static_cast<const unsigned char*>(data), bytes);
}

}  // namespace lodgekv::pmem
