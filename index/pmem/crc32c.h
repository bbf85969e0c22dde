// CRC32C (Castagnoli) by ISA-L, chainable: Crc32c(Crc32c(seed, a), b) covers a then b.
#pragma once

#include <isa-l/crc.h>

#include <cstddef>
#include <cstdint>

namespace lodgekv::pmem {

inline uint32_t Crc32c(uint32_t seed, const void* data, size_t bytes) {
  return crc32_iscsi(static_cast<unsigned char*>(const_cast<void*>(data)), static_cast<int>(bytes),
                     seed);
}

}  // namespace lodgekv::pmem
