// Pools whose counters are about to pass a border: of 32 bits, or their end.
#pragma once

#include <cstdint>

#include "tests/support/arena_memory.h"

namespace lodgekv::test {

// Numbers of a pool end here; an entry of a log has no more bits for them.
inline constexpr uint64_t kSequenceEnd = uint64_t{1} << 52;
// So few are left that any run reaches the end.
inline constexpr uint64_t kLastNumbers = kSequenceEnd - 40;

// In a closed pool: the next number that is handed out.
void SetNextSequence(const ArenaMemory& pool, uint64_t next);
// In a closed pool: how often its state was changed.
void SetStateGeneration(const ArenaMemory& pool, uint32_t generation);

}  // namespace lodgekv::test
