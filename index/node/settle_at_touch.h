// Settling at first touch. After a kill without a power cut, recovery sees stores that were never
// flushed, and a power cut that comes later must not take back what an answer was based on.
// Flushing all leaves before the first answer takes as long as reading them; here a leaf is flushed
// before the first answer that depends on it, and the others by a sweep (rest_of_recovery.h).
//
// The chain of leaves, as recovery leaves it, is divided into stretches of adjacent leaves. One
// is settled as a whole: its leaves' lines are flushed and fenced. Whoever reads or changes a leaf
// calls Touch first, with the key that led it there.
//
// What an answer for a key depends on:
//  - the leaf that covers the key;
//  - its right neighbour: bounds come from the keys that recovery found, and a key that was the
//    neighbour's least before its unflushed delete is covered by this leaf since;
//  - that the leaf stays reachable. An operation that was cut short may have created it, and
//    commits in a leaf further to the left, at most `reach` leaves away;
//  - that its left neighbour stays reachable, which leads to it past leaves that were removed, and
//    takes over its range when it is removed itself.
// So Touch settles the stretch of the key with the leaf after it, and `reach` + 1 before it.
//
// Rules for the tree
//  1. Touch(key) before a leaf's content is believed or changed for that key, whatever other key
//     led to the same leaf before; for a whole leaf both ends of its range.
//  2. When a leaf is removed, a neighbour takes over its range. Both have been settled with it. So
//     a leaf that covers keys of another stretch is settled.
//  3. Space that recovery found free is not allocated before all is settled, since what no longer
//     refers to it may not be durable yet: FinishMark comes last (rest_of_recovery.h).
//
// Thread-safe, except Begin, which comes before any other thread uses this. After End a Touch is
// one load. If the medium fails, nothing counts as settled any more.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "index/node/recovery_sweep.h"
#include "index/pmem/pool.h"

namespace lodgekv {

class SettleAtTouch final : public RecoverySweep {
 public:
  struct Stretch {
    std::string low;  // its keys are not below it, as bytes; that of the first one is empty
    size_t first;     // its first leaf: a position in `leaves`
  };

  // `reach`: how many leaves one operation may create to the right of the leaf in which it commits.
  SettleAtTouch(pmem::Pool& pool, size_t leaf_bytes, size_t reach);

  // How many leaves a stretch should have, for those who divide the chain.
  size_t stretch_leaves() const { return stretch_leaves_; }
  // From here on nothing is settled. `leaves` are all those of the tree, in order; `stretches`
  // ascend, and begin with the first leaf.
  void Begin(std::vector<pmem::Offset> leaves, std::vector<Stretch> stretches);

  bool unfinished() const override { return unfinished_.load(std::memory_order_acquire); }
  // Returns when what an answer for the key depends on is durable.
  void Touch(std::string_view key) const;

  // Settles the next `count` stretches. False: there was none left, or the medium has failed.
  bool SettleSome(size_t count) override;
  // All is settled. On return no thread flushes a leaf any more, so its space may go to others.
  void End() override;
  Progress progress() const override;
  absl::Status status() const override;
  std::string_view phase() const override { return "settling"; }

 private:
  struct Work {
    std::vector<pmem::Offset> leaves;
    std::vector<Stretch> stretches;
    std::unique_ptr<std::atomic<bool>[]> settled;
    std::atomic<size_t> next{0};  // of SettleSome
    std::atomic<size_t> done{0};

    size_t End(size_t stretch) const {
      return stretch + 1 < stretches.size() ? stretches[stretch + 1].first : leaves.size();
    }
  };
  std::shared_ptr<Work> Current() const;
  void SettleUpTo(Work& work, size_t stretch) const;
  bool SettleRange(Work& work, size_t begin, size_t end) const;

  pmem::Pool& pool_;
  const size_t leaf_bytes_;
  const size_t reach_;  // of the left neighbour
  const size_t stretch_leaves_;
  std::atomic<bool> unfinished_{false};
  mutable std::mutex mutex_;
  std::shared_ptr<Work> work_;  // under the mutex; shared with whoever is in a call
};

}  // namespace lodgekv
