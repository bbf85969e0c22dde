// Pools whose counters are about to overflow 32 bits, or to reach their maximum.
#pragma once

#include <cstdint>

#include "tests/support/arena_memory.h"

namespace lodgekv::test {

// The first sequence number that a pool cannot assign: a log entry has 52 bits for it.
inline constexpr uint64_t kSequenceEnd = uint64_t{1} << 52;
// Few enough left that every run reaches the end.
inline constexpr uint64_t kLastNumbers = kSequenceEnd - 40;

// Sets the next sequence number that a closed pool assigns.
void SetNextSequence(const ArenaMemory& pool, uint64_t next);
// Sets how often the state of a closed pool was changed.
void SetStateGeneration(const ArenaMemory& pool, uint32_t generation);

}  // namespace lodgekv::test
