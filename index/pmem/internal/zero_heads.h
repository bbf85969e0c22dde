// For everything that is found by scanning the heads of a chunk's units: at some moment
// (UnitArena's ZeroHeads) nothing that was there before can be found any more.
#pragma once

#include <algorithm>
#include <cstdint>

#include "index/pmem/crash_point.h"
#include "index/pmem/medium.h"
#include "index/pmem/pool.h"

namespace lodgekv::pmem {

// Zeroes the first line of each unit of the chunk at `memory`, durably on return.
inline void ZeroUnitHeads(Medium& medium, char* memory, const Chunk& chunk) {
  const uint64_t bytes = std::min<uint64_t>(chunk.unit_bytes, kLineBytes);
  for (uint32_t i = 0; i < chunk.bytes / chunk.unit_bytes; ++i) {
    char* head = memory + uint64_t{i} * chunk.unit_bytes;
    medium.StoreZeros(head, bytes);
    medium.Flush(head, bytes);
  }
  LODGEKV_CRASH_POINT(medium, "pmem.zero_heads.1");
  medium.Fence();
}

}  // namespace lodgekv::pmem
