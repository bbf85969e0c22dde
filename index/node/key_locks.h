// Excludes single writers from the keys of an atomic batch, in engines without a log: from before
// the batch reads its keys until its intent is retired (node/batch_intent.h). Otherwise recovery
// could apply the batch again over a later write.
//
// The batch locks its keys first and then acquires each leaf's lock at least once. A single writer
// checks here after it has acquired its leaf's lock. Both are atomic read-modify-writes, so either
// the writer sees the batch, or the batch waits for the writer's leaf. Striped by the key's hash: a
// writer may have to wait for a batch with another key.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "index/node/version_lock.h"

namespace lodgekv {

class KeyLocks {
 public:
  // Called by a thread that holds its leaf's lock: true if a batch has the key. Then the leaf's
  // lock must be released before waiting (AwaitFree).
  bool IsTaken(uint16_t hash) const {
    return batches_.load(std::memory_order_acquire) != 0 &&
           stripes_[StripeOf(hash)].load(std::memory_order_acquire) != 0;
  }
  void AwaitFree(uint16_t hash) const {
    for (Backoff backoff; IsTaken(hash); backoff.Pause()) {
    }
  }

  // Holds the keys of one batch during its lifetime.
  class Holder {
   public:
    // `hashes` are those of the batch's keys; they may repeat.
    Holder(KeyLocks& locks, std::span<const uint16_t> hashes) : locks_(locks) {
      stripes_.reserve(hashes.size());
      for (const uint16_t hash : hashes) stripes_.push_back(StripeOf(hash));
      std::sort(stripes_.begin(), stripes_.end());  // in order: no deadlock
      stripes_.erase(std::unique(stripes_.begin(), stripes_.end()), stripes_.end());
      locks_.batches_.fetch_add(1, std::memory_order_seq_cst);
      for (const uint32_t stripe : stripes_) locks_.Take(stripe);
    }
    ~Holder() {
      for (const uint32_t stripe : stripes_) {
        locks_.stripes_[stripe].store(0, std::memory_order_release);
      }
      locks_.batches_.fetch_sub(1, std::memory_order_release);
    }
    Holder(const Holder&) = delete;
    Holder& operator=(const Holder&) = delete;

   private:
    KeyLocks& locks_;
    std::vector<uint32_t> stripes_;
  };

 private:
  static constexpr uint32_t kStripes = 1024;
  static uint32_t StripeOf(uint16_t hash) { return hash % kStripes; }
  void Take(uint32_t stripe) {
    for (Backoff backoff; stripes_[stripe].exchange(1, std::memory_order_seq_cst) != 0;
         backoff.Pause()) {
    }
  }

  std::atomic<uint32_t> batches_{0};
  std::array<std::atomic<uint8_t>, kStripes> stripes_{};
};

}  // namespace lodgekv
