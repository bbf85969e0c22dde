// Recovery's traversal of a chain of leaves by several threads: walks begin at the first leaf and
// at units of the leaves' arena, an equal number of units apart, and are joined from left to right.
//
// A start is a guess. Its unit may be free: then what looks like its next pointer is stale or
// arbitrary, and may lead nowhere, through other free units, or into the middle of the chain, some
// of whose leaves then belong to the walk from there. So the chain is what is reached from the
// first leaf, from walk to walk, each from the leaf on at which the one before it has ended. The
// rest of each walk is not part of the chain, and an error found there does not count: its marks
// are removed.
//
// Invariants
//  1. A leaf is marked in the arena by the one walk that contains it.
//  2. A walk ends at the last leaf of all, at a leaf that another walk contains (`end`), or at
//     damage.
//  3. Between walking and joining, a leaf takes 8 bytes.
//
// Each thread advances many walks in turn, so that it waits for many leaves at once.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "index/node/recovery_tasks.h"
#include "index/pmem/pool.h"
#include "index/pmem/unit_arena.h"

namespace lodgekv {

// What the walk requires of an engine:
//   absl::Status Next(Offset leaf, Offset* next) const    the leaf to the right, 0: none; or damage
//   void Prefetch(Offset leaf) const                      what Next reads
//   absl::Status NoLeaf(Offset leaf, Offset next) const   `next` of `leaf` is no unit: says so
//   absl::Status ComesBack(Offset leaf) const             the chain leads to `leaf` again: says so
template <class Links>
class ChainWalk {
 public:
  ChainWalk(pmem::Pool& pool, pmem::UnitArena& arena, Links links)
      : pool_(pool), arena_(arena), links_(links) {}

  // From `first`, which is a unit.
  absl::Status Run(pmem::Offset first, unsigned threads, PhaseProgress& progress);

  // Leaves of the chain.
  size_t size() const { return size_; }
  // Those numbered `begin` to `end` - 1, in order. May be called by any thread.
  std::vector<pmem::Offset> Leaves(size_t begin, size_t end) const;

 private:
  static constexpr size_t kUnused = SIZE_MAX;
  // Units from one start to the next: enough starts that the longest walk is a small part of all,
  // and few enough that they cost nothing.
  static constexpr uint64_t kLeastStep = 8;
  static constexpr uint64_t kMostStarts = 4096;
  static constexpr size_t kAtOnce = 16;
  static constexpr size_t kProgressStep = size_t{1} << 16;

  struct Walk {
    std::deque<pmem::Offset> leaves;
    pmem::Offset end = 0;  // 0: the last leaf of all was passed
    absl::Status status;
    size_t used = kUnused;  // part of the chain from this leaf on
  };
  // A leaf's position in a walk.
  struct Place {
    size_t walk = kUnused;
    size_t index = 0;
  };
  // Leaves of the chain that one walk contains.
  struct Stretch {
    size_t number;  // of its first leaf
    const Walk* walk;
  };

  void Start(pmem::Offset leaf);
  void WalkSome(std::atomic<size_t>& next, PhaseProgress& progress);
  bool Step(Walk& walk);
  void FindEnds(unsigned threads);
  absl::Status Join();
  void DropStrays(unsigned threads);

  pmem::Pool& pool_;
  pmem::UnitArena& arena_;
  const Links links_;
  std::deque<Walk> walks_;  // the first one begins at the first leaf
  absl::flat_hash_map<pmem::Offset, Place> ends_;
  std::vector<Stretch> stretches_;
  size_t size_ = 0;
};

template <class Links>
absl::Status ChainWalk<Links>::Run(pmem::Offset first, unsigned threads, PhaseProgress& progress) {
  Start(first);
  const uint64_t step = std::max(kLeastStep, arena_.total_units() / kMostStarts);
  for (const pmem::Offset unit : arena_.SampleUnits(step)) Start(unit);
  std::atomic<size_t> next{0};
  (void)RunTasks(std::max(1u, threads), threads, [&](size_t) {
    WalkSome(next, progress);
    return absl::OkStatus();
  });
  FindEnds(threads);
  absl::Status status = Join();
  DropStrays(threads);
  return status;
}

template <class Links>
void ChainWalk<Links>::Start(pmem::Offset leaf) {
  if (arena_.Mark(leaf) == pmem::UnitArena::MarkResult::kMarked) {
    walks_.emplace_back().leaves.push_back(leaf);
  }
}

// Advances walks that no thread has begun yet, until there is none left.
template <class Links>
void ChainWalk<Links>::WalkSome(std::atomic<size_t>& next, PhaseProgress& progress) {
  std::array<Walk*, kAtOnce> walks;
  size_t count = 0;
  size_t steps = 0;
  for (bool more = true; more || count > 0;) {
    while (more && count < kAtOnce) {
      const size_t w = next.fetch_add(1, std::memory_order_relaxed);
      more = w < walks_.size();
      if (!more) break;
      links_.Prefetch(walks_[w].leaves.front());
      walks[count++] = &walks_[w];
    }
    for (size_t i = 0; i < count;) {
      if (Step(*walks[i])) {
        ++i;
      } else {
        walks[i] = walks[--count];
      }
    }
    steps += count;
    if (steps >= kProgressStep) progress.Add(std::exchange(steps, 0));
  }
  progress.Add(steps);
}

// Advances to the next leaf. False: the walk has ended.
template <class Links>
bool ChainWalk<Links>::Step(Walk& walk) {
  const pmem::Offset leaf = walk.leaves.back();
  pmem::Offset next;
  walk.status = links_.Next(leaf, &next);
  if (!walk.status.ok() || next == 0) return false;
  switch (arena_.Mark(next)) {
    case pmem::UnitArena::MarkResult::kMarked: break;
    case pmem::UnitArena::MarkResult::kTwice: walk.end = next; return false;
    // A leaf of before the crash leads to no unit that was allocated since, so kFinished is damage
    // too.
    case pmem::UnitArena::MarkResult::kFinished:
    case pmem::UnitArena::MarkResult::kNotAUnit:
      walk.status = links_.NoLeaf(leaf, next);
      return false;
  }
  links_.Prefetch(next);
  walk.leaves.push_back(next);
  return true;
}

// Finds the leaves at which walks ended in other walks: they are at the start of one, or, if a
// stray walk ended there or contains the leaf, in the middle of one.
template <class Links>
void ChainWalk<Links>::FindEnds(unsigned threads) {
  for (const Walk& walk : walks_) {
    if (walk.end != 0) ends_[walk.end] = {};
  }
  size_t missing = ends_.size();
  for (size_t w = 0; w < walks_.size(); ++w) {
    const auto end = ends_.find(walks_[w].leaves.front());
    if (end == ends_.end()) continue;
    end->second = {w, 0};
    --missing;
  }
  if (missing == 0) return;
  (void)RunTasks(walks_.size(), threads, [&](size_t w) {
    size_t i = 0;
    for (const pmem::Offset leaf : walks_[w].leaves) {
      const auto end = ends_.find(leaf);
      if (end != ends_.end()) end->second = {w, i};
      ++i;
    }
    return absl::OkStatus();
  });
}

template <class Links>
absl::Status ChainWalk<Links>::Join() {
  for (Place at{0, 0};;) {
    Walk& walk = walks_[at.walk];
    // A walk entered before the leaf from which on it is used leads to that leaf again.
    if (walk.used != kUnused) {
      return links_.ComesBack(walk.leaves[std::max(at.index, walk.used)]);
    }
    walk.used = at.index;
    stretches_.push_back({size_, &walk});
    size_ += walk.leaves.size() - walk.used;
    if (!walk.status.ok()) return walk.status;
    if (walk.end == 0) return absl::OkStatus();
    at = ends_.at(walk.end);
    if (pool_.medium().Canary("node.chain_walk.whole_walks")) at.index = 0;
  }
}

template <class Links>
void ChainWalk<Links>::DropStrays(unsigned threads) {
  (void)RunTasks(walks_.size(), threads, [&](size_t w) {
    const auto& leaves = walks_[w].leaves;
    const size_t strays = std::min(walks_[w].used, leaves.size());
    for (size_t i = 0; i < strays; ++i) arena_.Unmark(leaves[i]);
    return absl::OkStatus();
  });
}

template <class Links>
std::vector<pmem::Offset> ChainWalk<Links>::Leaves(size_t begin, size_t end) const {
  std::vector<pmem::Offset> leaves;
  leaves.reserve(end - begin);
  auto stretch = std::upper_bound(stretches_.begin(), stretches_.end(), begin,
                                  [](size_t n, const Stretch& s) { return n < s.number; }) -
                 1;
  for (size_t n = begin; n < end; ++stretch) {
    const auto& all = stretch->walk->leaves;
    const size_t first = stretch->walk->used + (n - stretch->number);
    const size_t count = std::min(all.size() - first, end - n);
    const auto from = all.begin() + static_cast<ptrdiff_t>(first);
    leaves.insert(leaves.end(), from, from + static_cast<ptrdiff_t>(count));
    n += count;
  }
  return leaves;
}

}  // namespace lodgekv
