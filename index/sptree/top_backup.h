// The backup of the top layer on the medium (SPTree 4.1): low fences and their leaves, ascending,
// in one array without pointers, from which a lookup finds its way before DRAM knows the leaves
// (first_touch.h). A worker in the background writes it afresh (backup_work.h), beside the one in
// use (node/two_generations.h): from that and from the changes since, which it notes, or, where it
// does not know them all, from a walk over the leaves.
//
// It is a hint: leaves have been split off and merged since it was written. Of what it says nothing
// is believed that the leaf contradicts: its own low fence, and its mark (layout.h, invariant 5).
// So it need not be written in order with anything, and a damaged entry costs steps along the
// chain.
//
// INVARIANT: while an entry of the backup on the medium leads to a leaf, that leaf's space, and the
// record of its low fence, belong to it: a merged leaf's are free only when no backup leads to it.
//
// Thread-safe. Begin to Replace, or Abandon, belong to one thread at a time. Entries are read only
// while nothing replaces them: until recovery has ended (first_touch.h), and under TryHold, by
// Check and for the next backup.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "index/node/codec.h"
#include "index/node/reclaimer.h"
#include "index/node/two_generations.h"
#include "index/pmem/pool.h"
#include "index/pmem/record_slab.h"
#include "index/pmem/unit_arena.h"

namespace lodgekv::sptree {

namespace media {
struct BackupEntry {
  pmem::Word low;   // the first word of the leaf's low fence
  pmem::Word leaf;  // its offset, and 12 check bits over both words
};
}  // namespace media

class TopBackup {
 public:
  struct Entry {
    uint64_t low;
    pmem::Offset leaf;
  };
  // A leaf that was split off; `from` was its left neighbour then.
  struct Split {
    Entry leaf;
    pmem::Offset from;
  };
  // What has changed since the current backup.
  struct Changes {
    bool whole = false;         // otherwise more has changed than this
    std::vector<Split> splits;  // those from one leaf in their order
    std::vector<pmem::Offset> dropped;
  };
  // Adds what a walk over the leaves comes to next. A leaf that has taken over its right neighbours
  // while the walk was there comes again, and replaces what came since: the entries ascend.
  static void AddAscending(const Entry& entry, std::vector<Entry>* entries);

  TopBackup(pmem::Pool& pool, pmem::RecordSlab& slab, pmem::UnitArena& leaves, Reclaimer& reclaimer,
            pmem::Word& root)
      : pool_(pool),
        slab_(slab),
        leaves_(leaves),
        reclaimer_(reclaimer),
        generations_(pool, slab, reclaimer, root) {
    SetDue();
  }

  // --- changes of the tree ---
  // Called with the leaf linked durably, while no reader can see it or the leaf to its left, and no
  // writer change it.
  void NoteSplit(const Split& split);
  // A leaf was merged into its left neighbour: nothing but the backup may lead to it any more.
  // True: it does, and the leaf is freed when it no longer does. False: the caller frees leaf and
  // fence.
  bool Keeps(pmem::Offset leaf);
  // Many leaves have changed since the last one was written.
  bool IsDue() const {
    return changes_.load(std::memory_order_relaxed) >= due_at_.load(std::memory_order_relaxed);
  }

  // --- a new backup ---
  // From here on leaves that are merged are kept for it, too. `*changes`: those until now. If they
  // are not whole, or the current backup is damaged, the leaves are to be walked.
  void Begin(Changes* changes);
  // `entries` come from a walk that has ended, which has seen some of the leaves that were split
  // off meanwhile: those are no change any more.
  void NoteWalked(std::span<const Entry> entries);
  // Replaces the backup by one of `entries`, which ascend. False: there is no room, a sync has
  // failed, or GiveUp has come in between; then nothing has changed. Not inside an EpochGuard.
  bool Replace(std::span<const Entry> entries);
  // The one that Begin was called for will not be written, if it has not been: what has changed
  // since the current one is not known any more.
  void Abandon();
  // Without a backup, so that no leaf is kept: for a full pool. True: space was freed. Not inside
  // an EpochGuard.
  bool GiveUp();

  // --- recovery ---
  // Finds the backup and marks its space. A damaged one is not used (lost).
  void Recover(std::string_view engine);
  // After that, when the pool is in use and nothing is allocated yet: the backup, damaged or not,
  // is not needed, and need not keep leaves. `renew`: a new one is due.
  void Forget(bool renew);
  // All leaves of the chain are marked: those that only the backup leads to are kept.
  void KeepUnmarked();

  // While it is held, nothing replaces the backup. Not owned: that is happening right now.
  std::unique_lock<std::mutex> TryHold() {
    return std::unique_lock<std::mutex>(replacing_, std::try_to_lock);
  }
  size_t entries() const { return generations_.Current().bytes / sizeof(media::BackupEntry); }
  // False: it is damaged.
  bool Read(size_t i, Entry* entry) const;
  // The first word of entry i, damaged or not: a search that it leads astray finds out.
  uint64_t LowAt(size_t i) const { return EntryAt(i).low.Load(); }

  bool lost() const { return lost_; }
  uint64_t written() const { return written_.load(std::memory_order_relaxed); }
  uint64_t walks() const { return walks_.load(std::memory_order_relaxed); }
  uint64_t space_bytes() const { return generations_.space_bytes(); }
  // Leaves that only a backup leads to.
  std::vector<pmem::Offset> KeptLeaves() const;

 private:
  media::BackupEntry& EntryAt(size_t i) const {
    return reinterpret_cast<media::BackupEntry*>(generations_.Current().data)[i];
  }
  bool Write(std::span<const Entry> entries);
  bool ReplaceHeld(std::span<const Entry> entries, std::vector<pmem::Offset>* gone);
  void FreeKept(std::span<const pmem::Offset> leaves, pmem::Offset space);
  void SetDue();
  void ForgetSplits();

  pmem::Pool& pool_;
  pmem::RecordSlab& slab_;
  pmem::UnitArena& leaves_;
  Reclaimer& reclaimer_;
  TwoGenerations generations_;
  bool lost_ = false;
  std::atomic<uint64_t> changes_{0};  // since the last backup
  std::atomic<uint64_t> due_at_{0};
  std::atomic<uint64_t> written_{0};
  std::atomic<uint64_t> walks_{0};
  std::mutex replacing_;  // held before the other one
  mutable std::mutex mutex_;
  // Under the mutex:
  bool making_ = false;
  // Whether `splits_` and `kept_` have all that has changed since the current backup, or since
  // Begin if one is being made.
  bool whole_ = false;
  std::vector<Split> splits_;
  std::vector<pmem::Offset> kept_;
  size_t kept_before_ = 0;  // so many of them since before Begin: the new backup has none of them
};

}  // namespace lodgekv::sptree
