// What a store takes for what it holds, and how far a scan goes to its first key: to be compared
// between two moments at which it holds as much.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tests/support/engine_harness.h"

namespace lodgekv::test {

struct Footprint {
  uint64_t dram;
  uint64_t medium;
  uint64_t chunks;  // of the pool, with what is free in them
  std::map<std::string, double> nodes;
  uint64_t steps;  // to the first key of a scan, from either end
};

// Once nothing more is being given back.
Footprint FootprintOf(EngineHarness& harness);

// By at most a fifth, and what is just being given back.
void ExpectNoGrowth(const Footprint& first, const Footprint& now);

}  // namespace lodgekv::test
