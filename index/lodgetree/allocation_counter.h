// For tests: counts what a thread allocates. A program that links it has its own operator new.
#pragma once

#include <cstdint>

namespace lodgekv::lodgetree {

// Allocations by the calling thread so far.
uint64_t ThreadAllocations();

}  // namespace lodgekv::lodgetree
