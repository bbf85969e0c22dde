// Fetches a line into the cache. The address need not be valid.
#pragma once

namespace lodgekv {

// In assembly, since the compiler drops calls of functions that do nothing but __builtin_prefetch.
inline void Prefetch(const void* at) {
  asm volatile("prefetcht0 %0" : : "m"(*static_cast<const char*>(at)));
}

}  // namespace lodgekv
