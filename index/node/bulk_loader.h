// A bulk load into a tree whose leaves are written one after another, each once: what is the same
// in every such tree. It takes the pairs, stages their records and distributes them over leaves of
// the wanted fill; the tree's Leaves writes them.
//
// Leaves, which keeps the first pair's leaf as the current one until EndLeaf:
//   Begin      allocates what the first leaf needs
//   EndLeaf    writes the current leaf, which has `pairs`, and begins another, whose first pair is
//              `next`
//   EndLast    writes the current leaf as the last one. Without pairs only if there are none at all
//   Commit     makes the whole load durable, and the tree's root of it
//   BuildAbove builds what leads to the leaves
// The first three return false if the pool is full; what they have allocated then goes with the
// load (CreateLoaded).
//
// Used by one thread, in a pool without other users.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "index/engine_info.h"
#include "index/node/pending_op.h"
#include "index/node/sorted_pairs.h"

namespace lodgekv {

template <class C, class Leaves>
class BulkLoader {
 public:
  // `tree`: its TreeState. `leaf_slots`: pairs of a full leaf.
  template <class State>
  BulkLoader(State& tree, const BulkLoad& load, unsigned leaf_slots, Leaves& leaves)
      : stages_(tree.pool, tree.slab, tree.codec, tree.values),
        medium_(tree.medium),
        pairs_(load.source, tree.codec),
        in_100_leaves_(std::max(100u, load.fill_percent * leaf_slots)),
        leaves_(leaves) {
    in_leaf_.reserve(leaf_slots);
  }

  absl::Status Run();

 private:
  // If a fence is an instruction: few lines are in flight, and blocks are counted right (medium.h).
  static constexpr uint64_t kLeavesPerFence = 8;

  bool Stage(const WriteOp& op, Pair* pair);
  bool EndLeaf(Pair next);
  absl::Status Finish();
  absl::Status PoolIsFull() const;
  // Pairs for leaf number `n`, so that all leaves together have the wanted fill.
  uint64_t WantedIn(uint64_t n) const {
    return in_100_leaves_ * (n + 1) / 100 - in_100_leaves_ * n / 100;
  }

  OpStages<C> stages_;
  pmem::Medium& medium_;
  SortedPairs<C> pairs_;
  const uint64_t in_100_leaves_;  // pairs
  Leaves& leaves_;
  std::vector<Pair> in_leaf_;  // the current one
  uint64_t count_ = 0;         // leaves before it
};

template <class C, class Leaves>
absl::Status BulkLoader<C, Leaves>::Run() {
  if (!leaves_.Begin()) return PoolIsFull();
  uint64_t wanted = WantedIn(0);
  for (WriteOp op;;) {
    const absl::StatusOr<bool> more = pairs_.Next(&op);
    if (!more.ok()) return more.status();
    if (!*more) break;
    Pair pair;
    if (!Stage(op, &pair)) return PoolIsFull();
    if (in_leaf_.size() == wanted) {
      if (!EndLeaf(pair)) return PoolIsFull();
      wanted = WantedIn(count_);
    }
    in_leaf_.push_back(pair);
  }
  return leaves_.EndLast(in_leaf_) ? Finish() : PoolIsFull();
}

template <class C, class Leaves>
bool BulkLoader<C, Leaves>::Stage(const WriteOp& op, Pair* pair) {
  PendingOp<C> pending;
  WriteResult result;
  stages_.Begin(op, &result, &pending);
  if (stages_.Stage(&pending) != Outcome::kOk) return false;
  stages_.Finish(&pending);
  *pair = pending.staged.pair;
  return true;
}

template <class C, class Leaves>
bool BulkLoader<C, Leaves>::EndLeaf(Pair next) {
  if (!leaves_.EndLeaf(in_leaf_, next)) return false;
  in_leaf_.clear();
  ++count_;
  if (!medium_.long_fences() && count_ % kLeavesPerFence == 0) medium_.Fence();
  return true;
}

template <class C, class Leaves>
absl::Status BulkLoader<C, Leaves>::Finish() {
  leaves_.Commit();
  if (!medium_.failed()) leaves_.BuildAbove();
  if (medium_.failed()) return absl::DataLossError("bulk load: a sync of the medium failed");
  return absl::OkStatus();
}

template <class C, class Leaves>
absl::Status BulkLoader<C, Leaves>::PoolIsFull() const {
  return absl::ResourceExhaustedError(
      absl::StrCat("bulk load: the pool is full, there is no room for pair ", pairs_.count(),
                   "; nothing of the load is kept; make a larger pool"));
}

// The engine that make() constructs and load_into(engine) loads. Nothing is left of a load that
// fails.
template <class Make, class LoadInto>
absl::StatusOr<std::unique_ptr<Engine>> CreateLoaded(const EngineContext& context,
                                                     const BulkLoad& load, Make make,
                                                     LoadInto load_into) {
  absl::Status status = CheckFill(load.fill_percent);
  if (!status.ok()) return status;
  auto engine = make();
  status = load_into(*engine);
  if (status.ok()) return engine;
  engine.reset();
  context.pool->ResetForEngine();
  return status;
}

}  // namespace lodgekv
