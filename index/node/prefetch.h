// Fetches lines into the cache. The address need not be valid.
#pragma once

#include <cstddef>

#include "index/pmem/medium.h"

namespace lodgekv {

// In assembly, since the compiler drops calls of functions that do nothing but __builtin_prefetch.
inline void Prefetch(const void* at) {
  asm volatile("prefetcht0 %0" : : "m"(*static_cast<const char*>(at)));
}

// `at` is the beginning of a line.
inline void PrefetchLines(const void* at, size_t bytes) {
  for (size_t line = 0; line < bytes; line += pmem::kLineBytes) {
    Prefetch(static_cast<const char*>(at) + line);
  }
}

}  // namespace lodgekv
