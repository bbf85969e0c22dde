// What readers see of a leaf during a commit, for trees whose leaves have metadata in DRAM.
//
// A writer holds its leaf's lock across its fences. Most commits store what readers do not look at,
// since they know which slots count from DRAM, which changes after the fence. But some words, such
// as a value that changes in its slot, they read from the medium. There they could see a store
// before it is durable. If a fence is an instruction, they wait from the store until its fence
// (VersionLock::BeginPublish). If a fence waits for a disk, they read the old value meanwhile
// (pending_words.h). A writer calls, with the leaf locked,
//
//   BeginCommit(leaf, word), if readers look at the word;   then it stores, flushes, fences
//   BeginPublish(leaf);                                     then it changes the leaf in DRAM
//   EndPublish(leaf);      or EndCommit instead of the two, if readers look at the word and nothing
//                          changes in DRAM
//
// INVARIANT: a leaf has at most one word that readers look at and that is not yet durable.
//
// Leaf is the metadata: `lock`, a VersionLock, and `pending`, a PendingWords::Ticket, 0 at first.
//
// Thread-safe: only the holder of the leaf's lock calls Begin and End methods.
#pragma once

#include <atomic>
#include <memory>

#include "index/node/pending_words.h"
#include "index/node/version_lock.h"
#include "index/pmem/medium.h"

namespace lodgekv {

template <class Leaf>
class LeafCommits {
 public:
  explicit LeafCommits(bool long_fences)
      : pending_(long_fences ? std::make_unique<PendingWords>() : nullptr) {}

  // True: readers wait from a store that they could see to its fence.
  bool readers_wait() const { return pending_ == nullptr; }

  void BeginCommit(Leaf& leaf, const pmem::Word& word) const {
    if (pending_ == nullptr) {
      leaf.lock.BeginPublish();
    } else {
      std::atomic_ref(leaf.pending).store(pending_->Set(word), std::memory_order_release);
    }
  }
  // Call when the commit is durable.
  static void BeginPublish(Leaf& leaf) { leaf.lock.BeginPublish(); }
  void EndPublish(Leaf& leaf) const {
    if (leaf.pending != 0) {
      pending_->Clear(leaf.pending);
      std::atomic_ref(leaf.pending).store(0, std::memory_order_release);
    }
    leaf.lock.EndPublish();
  }

  void EndCommit(Leaf& leaf) const {
    if (pending_ != nullptr) [[unlikely]]
      BeginPublish(leaf);
    EndPublish(leaf);
  }

  // The value of a word of the leaf that a reader may see.
  uint64_t Durable(const Leaf& leaf, const pmem::Word& word) const {
    if (pending_ == nullptr) [[likely]]
      return word.Load();
    return pending_->Durable(word, [&] {
      return std::atomic_ref(const_cast<Leaf&>(leaf).pending).load(std::memory_order_acquire);
    });
  }

 private:
  const std::unique_ptr<PendingWords> pending_;  // null if a fence is an instruction
};

}  // namespace lodgekv
