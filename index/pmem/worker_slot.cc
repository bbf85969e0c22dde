#include "index/pmem/worker_slot.h"

#include <atomic>
#include <bitset>
#include <condition_variable>
#include <mutex>

namespace lodgekv::pmem {
namespace {

struct Slots {
  std::mutex mu;
  std::condition_variable freed;
  std::bitset<kMaxWorkerSlots> taken;
};

constinit std::atomic<uint32_t> slots_used{0};
constinit std::atomic<uint64_t> turns{0};

// Never destroyed: threads may end after static destructors have run.
Slots& GetSlots() {
  static Slots& slots = *new Slots;
  return slots;
}

uint32_t Take() {
  Slots& slots = GetSlots();
  std::unique_lock lock(slots.mu);
  slots.freed.wait(lock, [&] { return !slots.taken.all(); });
  uint32_t slot = 0;
  while (slots.taken[slot]) ++slot;
  slots.taken.set(slot);
  if (slot >= slots_used.load(std::memory_order_relaxed)) {
    slots_used.store(slot + 1, std::memory_order_release);
  }
  return slot;
}

struct Holder {
  const uint32_t slot = Take();
  ~Holder() {
    internal::worker_slot = internal::kNoWorkerSlot;
    Slots& slots = GetSlots();
    {
      std::lock_guard lock(slots.mu);
      slots.taken.reset(slot);
    }
    slots.freed.notify_one();
  }
};

}  // namespace

uint32_t internal::TakeWorkerSlot() {
  static thread_local Holder holder;
  worker_turn = turns.fetch_add(1, std::memory_order_relaxed) + 1;
  return holder.slot;
}

uint32_t WorkerSlotsUsed() { return slots_used.load(std::memory_order_acquire); }

}  // namespace lodgekv::pmem
