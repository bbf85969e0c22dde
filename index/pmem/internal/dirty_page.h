// When the kernel has failed to write a page of a mapped file back, it reports that once and takes
// the page for clean: memory has the new content, the file the old one, and later syncs succeed
// without writing the page. A process that was started after the failure finds it so.
#pragma once

#include <cstdint>

namespace lodgekv::pmem {

// The page of `word` (8-byte aligned, in a writable mapping) is written by the next sync, as it is.
// Its content stays, also if other threads store to it meanwhile.
inline void DirtyPage(const void* word) {
  // A compiler may turn an atomic operation that changes nothing into a load.
  auto* at = const_cast<uint64_t*>(static_cast<const uint64_t*>(word));
  asm volatile("lock orq $0, %0" : "+m"(*at) : : "cc");
}

}  // namespace lodgekv::pmem
