// The checksum of a group of the journal: CRC-64 (ECMA), chainable.
//
// Not CRC32C: engines and pool end their stored records with that. Two such records, each with its
// own checksum, differ by a multiple of the polynomial, so a CRC32C of the group cannot distinguish
// them. Then a group would be valid although one sector was not written, and holds a complete older
// record in place of the new one.
#pragma once

#include <isa-l/crc64.h>

#include <cstddef>
#include <cstdint>

namespace lodgekv::pmem {

inline uint64_t GroupCrc(uint64_t seed, const void* data, size_t bytes) {
  return crc64_ecma_refl(seed, static_cast<const unsigned char*>(data), bytes);
}

}  // namespace lodgekv::pmem
