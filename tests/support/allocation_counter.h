// For tests: counts a thread's allocations. A program that links this gets its own operator new.
#pragma once

#include <cstdint>

namespace lodgekv {

// Allocations by the calling thread so far.
uint64_t ThreadAllocations();

}  // namespace lodgekv
