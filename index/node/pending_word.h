// A commit in progress, for trees whose readers access the medium itself: if a fence waits for a
// disk, readers use the word's old value until the new one is durable.
//
// A commit is one store of one word, so one pending word per lock suffices. The holder of the lock
// calls Set, stores and fences, and then, while readers wait (VersionLock::BeginPublish), Clear.
#pragma once

#include <atomic>
#include <cstdint>

#include "index/pmem/medium.h"

namespace lodgekv {

class PendingWord {
 public:
  // Call before `word` is stored.
  void Set(const pmem::Word& word) {
    old_.store(word.Load(), std::memory_order_relaxed);
    word_.store(&word, std::memory_order_release);
  }
  void Clear() { word_.store(nullptr, std::memory_order_release); }

  // The value of `word` that a reader may see. The word is loaded first: a reader that finds the
  // new value finds it pending, or durable.
  uint64_t Durable(const pmem::Word& word) const { return Durable(word, word.Load()); }
  // The same if it has been loaded: `now`.
  uint64_t Durable(const pmem::Word& word, uint64_t now) const {
    return word_.load(std::memory_order_acquire) == &word ? old_.load(std::memory_order_relaxed)
                                                          : now;
  }

 private:
  std::atomic<const pmem::Word*> word_{nullptr};
  std::atomic<uint64_t> old_{0};
};

}  // namespace lodgekv
