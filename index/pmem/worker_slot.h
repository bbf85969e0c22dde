// Each thread that works on an engine holds one small dense number, its worker slot, from its first
// use until it ends. Per-thread state (log partitions, allocation caches) is an array over worker
// slots.
#pragma once

#include <cstdint>

namespace lodgekv::pmem {

inline constexpr uint32_t kMaxWorkerSlots = 256;

// The calling thread's slot. When all are taken it waits until a thread ends.
uint32_t CurrentWorkerSlot();

}  // namespace lodgekv::pmem
