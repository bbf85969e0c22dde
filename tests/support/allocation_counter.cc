#include "tests/support/allocation_counter.h"

#include <cstdlib>
#include <new>

namespace {
thread_local uint64_t allocations = 0;
}  // namespace

namespace lodgekv {

uint64_t ThreadAllocations() { return allocations; }

}  // namespace lodgekv

void* operator new(size_t bytes) {
  ++allocations;
  if (void* space = std::malloc(bytes)) return space;
  throw std::bad_alloc();
}
void operator delete(void* space) noexcept { std::free(space); }
void operator delete(void* space, size_t) noexcept { std::free(space); }
