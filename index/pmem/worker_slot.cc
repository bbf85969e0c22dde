#include "index/pmem/worker_slot.h"

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
  return holder.slot;
}

}  // namespace lodgekv::pmem
