// Leaves at their first touch after the pool was opened: an answer at once needs a tree whose
// leaves nobody has walked. The Mnode of a gap (mnode.h) stands for neighbouring leaves without
// Mnodes. At first there is one gap, of all leaves. A search that comes to a gap has the leaf that
// it aims at found, examined, mended and put into the top layer; what is left of the gap, to the
// left and to the right of it, are gaps. A sweep in the background opens them all (sweep.h).
//
// The way to a leaf: the backup of the top layer names one to the left of it, or the gap begins
// there; then `next`. A leaf of the backup is believed only if it is not marked, and its own low
// fence is in the gap and not to the right of what is aimed at (top_backup.h).
//
// After a kill its lines are flushed before anything is answered that depends on them, and so are
// the links that were followed: a power cut that comes later must not take them back. That
// suffices since each thread fences a store before the next one that depends on it.
//
// Invariants
//  1. Under the lock of a gap's Mnode its leaves are as recovery found them. Those at its borders
//     have Mnodes, and the left one does not take part in a merge with what is in the gap.
//  2. Two gaps are never neighbours.
//  3. When a leaf gets its Mnode, all that it owns is marked (pmem/unit_arena.h): so whatever is
//     unlinked or replaced after that may be freed at any time.
//  4. And what the logs have of it is in its write buffer (pending_log.h).
//
// Thread-safe, but for Begin. An opening may flush and fence, under any lock and inside an
// EpochGuard; it waits for no lock. The gap's own lock is held across a fence only to mend a leaf.
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "index/sptree/leaf_examiner.h"
#include "index/sptree/pending_log.h"
#include "index/sptree/top_layer.h"

namespace lodgekv::sptree {

template <class C>
struct TreeState;

template <class C>
class FirstTouch final : public GapOpener<C> {
 public:
  using Separator = typename C::Separator;

  explicit FirstTouch(TreeState<C>& tree) : tree_(tree) {}

  // From here on all leaves are in one gap, which begins with `first`. `settle`: lines may not
  // have been flushed. DataLoss if that is no first leaf.
  absl::Status Begin(pmem::Offset first, bool settle);

  bool Open(Mnode<C>* gap, uint64_t snapshot, const Aim<C>& aim) override;
  // Of the first leaves in the gap, as many as are flushed together. The same result.
  bool OpenFront(Mnode<C>* gap, uint64_t snapshot);

  // What was damaged, or that the medium has failed: the first of it.
  absl::Status status() const;
  uint64_t leaves() const { return leaves_.load(std::memory_order_relaxed); }
  uint64_t keys() const { return keys_.load(std::memory_order_relaxed); }
  uint64_t repairs() const { return repairs_.load(std::memory_order_relaxed); }

 private:
  // A leaf in the gap; owns `low`.
  struct Place {
    pmem::Offset leaf = 0;
    Separator low{};
  };
  // Leaves that get their Mnodes together, and where the gap goes on; it owns the low fences.
  struct Run {
    std::vector<Looked<C>> leaves;
    std::vector<typename PendingLog<C>::Share> logged;  // of each
    Place rest;                                         // leaf 0: the gap ends there
  };

  // What was read and may not be durable.
  struct Unsettled {
    std::vector<pmem::Offset> links;  // leaves whose `next` was followed
    std::vector<pmem::Offset> leaves;
  };

  template <class Work>
  bool WithLock(Mnode<C>* gap, uint64_t snapshot, absl::Status* status, Work work);
  bool OpenSome(Mnode<C>* gap, uint64_t snapshot, const Aim<C>* aim, size_t most);
  bool IsInGap(const Mnode<C>& gap, const Aim<C>& aim) const;
  size_t LastReached(const Aim<C>& aim) const;
  bool ReadEntry(size_t entry, Place* place) const;
  bool ReachesEntry(size_t entry, const Aim<C>& aim) const;
  bool StartFromBackup(const Mnode<C>& gap, const Aim<C>& aim, Place* place) const;
  absl::Status Next(const Mnode<C>& gap, const Place& place, Place* next) const;
  absl::Status GoTo(const Mnode<C>& gap, const Aim<C>& aim, Place* place,
                    std::vector<pmem::Offset>* links) const;
  absl::Status FindStart(const Mnode<C>& gap, const Aim<C>* aim, Place* place,
                         std::vector<pmem::Offset>* links) const;
  absl::Status FindUnsettled(const Mnode<C>& gap, const Aim<C>* aim, size_t most,
                             Unsettled* found) const;
  absl::Status Settle(const Unsettled& found) const;
  absl::Status Look(Mnode<C>* gap, const Place& place, Run* run);
  absl::Status LookAtRun(Mnode<C>* gap, Place place, size_t most, Run* run);
  absl::Status MendRun(const Run& run);
  void Mend(const Looked<C>& looked);
  void TakeLogged(const Run& run);
  Mnode<C>* RestOf(const Mnode<C>& gap, const Run& run);
  void Publish(Mnode<C>* gap, const Run& run);
  void Note(const absl::Status& status);

  TreeState<C>& tree_;
  bool settle_ = false;
  Mnode<C> end_{};  // right of a gap that has no end
  std::atomic<uint64_t> leaves_{0};
  std::atomic<uint64_t> keys_{0};
  std::atomic<uint64_t> repairs_{0};
  mutable std::mutex mutex_;
  absl::Status status_;  // under the mutex
};

}  // namespace lodgekv::sptree
