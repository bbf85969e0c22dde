// A writers' lock and the readers' version in one word, in DRAM.
//
// A writer locks the node for all of its work, including fences. The version changes only while it
// publishes, that is while it changes what readers read. Readers wait from BeginPublish to
// EndPublish, and by then what is published is durable: a writer fences before, or, if a fence is
// an instruction, in between.
//
// Reader:  s = ReadBegin(); ... read ...; if (!Validate(s)) start again.
// Writer:  TryUpgrade(s); ... stage, persist ...; BeginPublish(); ... change ...; EndPublish();
//          Unlock(). Locks are released by a plain store.
#pragma once

#include <immintrin.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace lodgekv {

// Waits: spins, then yields the processor (the holder may wait for a disk).
class Backoff {
 public:
  // Called instead of waiting by a test that schedules threads itself; otherwise null.
  using Waiter = void (*)();
  static inline constinit std::atomic<Waiter> waiter{nullptr};

  void Pause() {
    if (const Waiter wait = waiter.load(std::memory_order_relaxed); wait != nullptr) [[unlikely]]
      return wait();
    if (++rounds_ < kSpins) {
      _mm_pause();
    } else {
      sched_yield();
    }
  }
  // For a thread that no other thread waits for.
  void PauseLong() {
    if (rounds_ < kSpins || waiter.load(std::memory_order_relaxed) != nullptr) return Pause();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }

 private:
  static constexpr int kSpins = 64;
  int rounds_ = 0;
};

class VersionLock {
 public:
  // The version that a reader's view belongs to.
  uint64_t ReadBegin() const {
    const uint64_t word = word_.load(std::memory_order_acquire);
    if ((word & kPublishing) != 0) [[unlikely]]
      return AwaitPublished();
    return word & ~kLocked;
  }

  // True: nothing was published since ReadBegin returned `snapshot`.
  bool Validate(uint64_t snapshot) const {
    std::atomic_thread_fence(std::memory_order_acquire);
    return (word_.load(std::memory_order_relaxed) & ~kLocked) == snapshot;
  }

  // Acquires the lock if it is free and nothing was published since `snapshot`.
  bool TryUpgrade(uint64_t snapshot) {
    return word_.compare_exchange_strong(snapshot, snapshot | kLocked, std::memory_order_acquire,
                                         std::memory_order_relaxed);
  }

  // Acquires the lock if it is free, for a caller that knows otherwise that the node is the right
  // one.
  bool TryLock() {
    const uint64_t word = word_.load(std::memory_order_relaxed);
    return (word & (kLocked | kPublishing)) == 0 && TryUpgrade(word);
  }

  // For a new node, the `number`th of a tree: its versions are those of no other one, as long as no
  // node is published 2^32 times.
  void StartAt(uint64_t number) {
    word_.store(number << kCountBits, std::memory_order_relaxed);
  }

  // For a node that is not yet reachable, or no longer. A stale reader may still hold an older
  // version.
  void InitLocked() {
    const uint64_t word = word_.load(std::memory_order_relaxed);
    word_.store(((word & ~kPublishing) + kVersionStep) | kLocked, std::memory_order_release);
  }

  // The following are for the holder of the lock.
  void BeginPublish() {
    word_.store(word_.load(std::memory_order_relaxed) | kPublishing, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
  }
  void EndPublish() {
    const uint64_t word = word_.load(std::memory_order_relaxed);
    word_.store((word & ~kPublishing) + kVersionStep, std::memory_order_release);
  }
  void Unlock() {
    word_.store(word_.load(std::memory_order_relaxed) & ~kLocked, std::memory_order_release);
  }
  // The number of publications, modulo 2^32.
  uint32_t PublishCount() const {
    return static_cast<uint32_t>(word_.load(std::memory_order_relaxed) / kVersionStep);
  }
  bool IsLocked() const { return (word_.load(std::memory_order_relaxed) & kLocked) != 0; }

 private:
  // Not inline: it would make every path longer.
  [[gnu::noinline, gnu::cold]] uint64_t AwaitPublished() const {
    uint64_t word = word_.load(std::memory_order_acquire);
    for (Backoff backoff; (word & kPublishing) != 0;) {
      backoff.Pause();
      word = word_.load(std::memory_order_acquire);
    }
    return word & ~kLocked;
  }

  static constexpr uint64_t kLocked = 1;
  static constexpr uint64_t kPublishing = 2;
  static constexpr uint64_t kVersionStep = 4;
  static constexpr unsigned kCountBits = 34;  // the flags, and 32 of the number of publications
  std::atomic<uint64_t> word_{0};
};
static_assert(sizeof(VersionLock) == 8);

}  // namespace lodgekv
