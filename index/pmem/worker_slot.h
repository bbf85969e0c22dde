// Each thread that uses an engine holds one small dense number, its worker slot, from its first use
// until it ends. Per-thread state (log partitions, allocation caches) is an array indexed by worker
// slot.
#pragma once

#include <cstdint>

namespace lodgekv::pmem {

inline constexpr uint32_t kMaxWorkerSlots = 256;

namespace internal {
inline constexpr uint32_t kNoWorkerSlot = kMaxWorkerSlots;
inline constinit thread_local uint32_t worker_slot = kNoWorkerSlot;
inline constinit thread_local uint64_t worker_turn = 0;
uint32_t TakeWorkerSlot();
}  // namespace internal

// The calling thread's slot. If all are in use, waits until a thread ends.
inline uint32_t CurrentWorkerSlot() {
  if (internal::worker_slot == internal::kNoWorkerSlot) [[unlikely]] {
    internal::worker_slot = internal::TakeWorkerSlot();
  }
  return internal::worker_slot;
}

// The same if the thread has one, and otherwise kMaxWorkerSlots.
inline uint32_t OwnWorkerSlot() { return internal::worker_slot; }

// A number that no other thread has, whether or not it has had the same slot. A fence covers the
// flushes of its own thread: not those of the slot's thread before it.
inline uint64_t CurrentWorkerTurn() {
  (void)CurrentWorkerSlot();
  return internal::worker_turn;
}

// Slots at this number and above were never in use.
uint32_t WorkerSlotsUsed();

}  // namespace lodgekv::pmem
