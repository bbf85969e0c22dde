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
    T* mine = slots_[CurrentWorkerSlot()].load(std::memory_order_acquire);
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
  [[gnu::noinline]] T& New() {
    T* item = new T;
    slots_[CurrentWorkerSlot()].store(item, std::memory_order_release);
    return *item;
  }

  std::array<std::atomic<T*>, kMaxWorkerSlots> slots_{};
};

}  // namespace lodgekv::pmem
