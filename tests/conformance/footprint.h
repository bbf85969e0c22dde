// The size of a store, and how far a scan goes to its first key: for comparing two moments with
// equal content.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tests/support/engine_harness.h"

namespace lodgekv::test {

// Gives the thread that frees retired space the time to do so: as long as it waits for readers,
// which on a busy machine may be many milliseconds, and one more.
void LetReclaim();

struct Footprint {
  uint64_t dram;
  uint64_t medium;
  uint64_t chunks;  // of the pool, including free space in them
  std::map<std::string, double> nodes;
  uint64_t steps;  // to the first key of a scan, from either end
};

// Measured once nothing is being freed any more.
Footprint FootprintOf(EngineHarness& harness);

// Of each figure the larger one.
Footprint LargerOf(const Footprint& one, const Footprint& other);

// At most a fifth larger, plus what is being freed.
void ExpectNoGrowth(const Footprint& first, const Footprint& now);

}  // namespace lodgekv::test
