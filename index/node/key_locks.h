// Excludes single writers from the keys of an atomic batch, in engines without a log: from before
// the batch reads its keys until its intent is retired (node/batch_intent.h). Otherwise recovery
// could apply the batch again over a later write.
//
// The batch locks its keys first and then acquires each leaf's lock at least once. A single writer
// checks here after it has acquired its leaf's lock. Both are atomic read-modify-writes, so either
// the writer sees the batch, or the batch waits for the writer's leaf. Striped by the key's hash: a
// writer may have to wait for a batch with another key.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <span>

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

  static constexpr uint32_t kStripes = 1024;

  // Holds the keys of one batch during its lifetime.
  class Holder {
   public:
    // `hashes` are those of the batch's keys; they may repeat.
    Holder(KeyLocks& locks, std::span<const uint16_t> hashes) : locks_(locks) {
      for (const uint16_t hash : hashes) {
        const uint32_t stripe = StripeOf(hash);
        stripes_[stripe / 64] |= uint64_t{1} << stripe % 64;
      }
      locks_.batches_.fetch_add(1, std::memory_order_seq_cst);
      ForEachStripe([&](uint32_t stripe) { locks_.Take(stripe); });
    }
    ~Holder() {
      ForEachStripe(
          [&](uint32_t stripe) { locks_.stripes_[stripe].store(0, std::memory_order_release); });
      locks_.batches_.fetch_sub(1, std::memory_order_release);
    }
    Holder(const Holder&) = delete;
    Holder& operator=(const Holder&) = delete;

   private:
    // Ascending, so that batches do not wait for one another in a circle.
    template <class Visit>
    void ForEachStripe(Visit visit) const {
      for (uint32_t i = 0; i < stripes_.size(); ++i) {
        for (uint64_t left = stripes_[i]; left != 0; left &= left - 1) {
          visit(i * 64 + static_cast<uint32_t>(std::countr_zero(left)));
        }
      }
    }

    KeyLocks& locks_;
    std::array<uint64_t, kStripes / 64> stripes_{};  // a bit for each
  };

 private:
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
