// A few free units owned by one worker slot, so that most allocations take no lock.
//
// The slot's thread (the owner) enters with two plain stores. A thief (at most one at a time, since
// it holds the arena's mutex) sets `wanted`, makes every thread of the process execute a barrier
// (membarrier), and waits until the owner has left: so the owner pays nothing for thefts, which
// happen only when the medium is full. If the kernel has no membarrier, the owner executes a full
// fence.
#pragma once

#include <atomic>
#include <cstdint>

#include "index/pmem/pool.h"

namespace lodgekv::pmem {

// Prepares the process for ProcessBarrier; false if the kernel does not support it.
bool ProcessBarrierAvailable();
// Every thread of the process has executed a full fence when this returns.
void ProcessBarrier();

class alignas(kLineBytes) UnitCache {
 public:
  static constexpr uint32_t kCapacity = 32;

  // --- the owner ---
  // False: a thief is active; the owner must use the arena, under its mutex.
  bool TryEnter(bool process_barrier) {
    busy_.store(true, std::memory_order_relaxed);
    if (process_barrier) {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
    if (!wanted_.load(std::memory_order_acquire)) [[likely]]
      return true;
    Leave();
    return false;
  }
  void Leave() { busy_.store(false, std::memory_order_release); }

  // --- the owner between TryEnter and Leave, or under the arena's mutex; a thief after Await ---
  bool Push(Offset unit, uint32_t capacity) {
    const uint32_t n = count();
    if (n >= capacity) return false;
    units_[n] = unit;
    count_.store(n + 1, std::memory_order_relaxed);
    return true;
  }
  Offset Pop() {
    const uint32_t n = count();
    if (n == 0) return 0;
    count_.store(n - 1, std::memory_order_relaxed);
    return units_[n - 1];
  }

  // What the next Pop returns, if nothing is pushed before; 0: the cache is empty.
  Offset Next() const {
    const uint32_t n = count();
    return n == 0 ? 0 : units_[n - 1];
  }

  // --- anybody ---
  uint32_t count() const { return count_.load(std::memory_order_relaxed); }

  // --- a thief: Want, then ProcessBarrier, then Await; Return at the end ---
  void Want() { wanted_.store(true, std::memory_order_relaxed); }
  void Await() const;
  void Return() { wanted_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> busy_{false};
  std::atomic<bool> wanted_{false};
  std::atomic<uint32_t> count_{0};
  Offset units_[kCapacity];
};

}  // namespace lodgekv::pmem
