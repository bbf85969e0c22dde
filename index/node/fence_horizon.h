// The number below which every log entry is fenced: a word of the engine area. Recovery finds log
// entries without a whole record: those whose record was freed, and those whose fence was never
// reached. Their numbers tell them apart. (Codecs with records only; README, Freeing records that a
// log names.)
//
// Invariants
//  1. fenced_below() is the value of the word once Raise has returned true, and never decreases.
//  2. Every entry with a lower number was fenced, or was dropped for good by a recovery.
//  3. A thread that takes numbers calls BeginTaking first, and EndTaking when all that it has taken
//     is fenced; so a number below all of the threads' marks is fenced.
//
// Thread safety: all calls but fenced_below and Restore, which are recovery's.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "index/node/reclaimer.h"
#include "index/pmem/per_worker.h"
#include "index/pmem/pool.h"

namespace lodgekv {

class FenceHorizon {
 public:
  // `word`: a checked word of the engine area (node/checked_word.h).
  FenceHorizon(pmem::Pool& pool, pmem::Word& word) : pool_(pool), word_(word) {}

  // Called around what one thread numbers and fences.
  void BeginTaking() {
    marks_.Current().unfenced_from.store(pool_.PeekSequence(), std::memory_order_relaxed);
  }
  void EndTaking() { marks_.Current().unfenced_from.store(UINT64_MAX, std::memory_order_release); }

  uint64_t fenced_below() const { return fenced_below_; }
  // Recovery: what the word says.
  void Restore(uint64_t fenced_below) { fenced_below_ = fenced_below; }
  // Raises the horizon to `number`, below which all is fenced. False: it is not durable.
  bool Raise(uint64_t number);
  // For records that are about to be freed: the horizon is raised over their numbers first.
  Reclaimer::Horizon ForReclaimer();

 private:
  struct alignas(64) Mark {
    // At most the first number that the current operation has taken and not fenced.
    std::atomic<uint64_t> unfenced_from{UINT64_MAX};
  };
  void WaitUntilFenced(uint64_t number) const;

  pmem::Pool& pool_;
  pmem::Word& word_;
  std::mutex mutex_;
  uint64_t fenced_below_ = 0;
  pmem::PerWorker<Mark> marks_;
};

}  // namespace lodgekv
