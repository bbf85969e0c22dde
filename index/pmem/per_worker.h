// One T for each worker slot (worker_slot.h), created when its thread first asks: keeps shared
// state out of hot paths.
#pragma once

#include <array>
#include <atomic>

#include "index/pmem/worker_slot.h"

namespace lodgekv::pmem {

template <class T>
class PerWorker {
 public:
  PerWorker() = default;
  ~PerWorker() {
    for (auto& slot : slots_) delete slot.load(std::memory_order_relaxed);
  }
  PerWorker(const PerWorker&) = delete;
  PerWorker& operator=(const PerWorker&) = delete;

  // The calling thread's.
  T& Current() {
    T* mine = slots_[OwnWorkerSlot()].load(std::memory_order_acquire);
    return mine != nullptr ? *mine : New();
  }

  // That of another slot; null: its thread has not asked yet.
  T* Of(uint32_t slot) const { return slots_[slot].load(std::memory_order_acquire); }

  // Calls visit(T&) for each that exists, possibly while its thread uses it.
  template <class Visit>
  void ForEach(Visit visit) const {
    for (const auto& slot : slots_) {
      if (T* item = slot.load(std::memory_order_acquire); item != nullptr) visit(*item);
    }
  }

 private:
  // Of a thread that has none, or no slot yet; an earlier thread with its slot may have left one.
  [[gnu::noinline]] T& New() {
    std::atomic<T*>& mine = slots_[CurrentWorkerSlot()];
    T* item = mine.load(std::memory_order_acquire);
    if (item == nullptr) {
      item = new T;
      mine.store(item, std::memory_order_release);
    }
    return *item;
  }

  // The last one, of threads without a slot, stays null.
  std::array<std::atomic<T*>, kMaxWorkerSlots + 1> slots_{};
};

}  // namespace lodgekv::pmem
