#include "index/lbtree/lbtree.h"

#include "index/lbtree/leaf_walk.h"
#include "index/lbtree/writes.h"
#include "index/pmem/naw_section.h"

namespace lodgekv::lbtree {

namespace {

constexpr CounterText kCounters[WorkerCounters::kCount] = {
    {"one_line_inserts_total", "Inserts whose slot was in the header's line"},
    {"two_line_inserts_total", "Inserts that wrote a second line"},
    {"moved_entries_total", "Entries moved out of a header's line"},
    {"leaf_splits_total", "Leaf splits"},
    {"updates_total", "Values stored in the slot of an existing key"},
    {"deletes_total", "Pairs deleted"},
    {"unlinked_leaves_total", "Leaves unlinked with their last pair"},
    {"batches_total", "Atomic batches committed"},
    {"groups_total", "Groups of operations committed under shared fences"},
};

}  // namespace

template <class C>
LbTree<C>::LbTree(const EngineContext& context, unsigned blocks)
    : tree_(context, blocks), lookups_(tree_), pair_writer_(tree_) {}

template <class C>
LbTree<C>::~LbTree() {
  tree_.background.Stop();
}

// A pool begins with one empty leaf.
template <class C>
absl::StatusOr<std::unique_ptr<Engine>> LbTree<C>::Create(const EngineContext& context) {
  const auto blocks = static_cast<unsigned>(context.options.Get("leaf_blocks"));
  std::unique_ptr<LbTree> engine(new LbTree(context, blocks));
  TreeState<C>& tree = engine->tree_;
  const pmem::Offset leaf = tree.leaves.Allocate(pmem::ReservePolicy::kKeep);
  if (leaf == 0) return absl::ResourceExhaustedError("the pool has no room for a first leaf");
  pmem::Medium& medium = tree.medium;
  media::Block* first = tree.LeafAt(leaf);
  medium.StoreZeros(first, tree.leaf_bytes());
  const auto area = tree.pool.engine_area();
  medium.Store(area[media::kBlocks], CheckedWord(blocks));
  pmem::NawSection section(medium);
  if (!medium.Canary("lbtree.create.leaf_not_flushed")) section.Flush(first, tree.leaf_bytes());
  section.Flush(&area[media::kBlocks], sizeof(pmem::Word));
  section.Commit(area[media::kFirstLeaf], CheckedWord(leaf));
  const typename TreeState<C>::Inner::Child child{C::MinusInfinity(), first};
  tree.inner.Build({&child, 1});
  return engine;
}

template <class C>
Outcome LbTree<C>::Write(std::span<const WriteOp> ops, std::span<WriteResult> results,
                         const WriteOptions& options) {
  return WriteToTree<C>(pair_writer_, ops, results, options);
}

template <class C>
uint64_t LbTree<C>::CountKeys() {
  return LeafWalk<C>(tree_).CountKeys();
}

template <class C>
uint64_t LbTree<C>::AppliedIndex() const {
  return tree_.applied.value();
}

template <class C>
void LbTree<C>::VisitCounters(CounterVisitor visitor) const {
  VisitSums(
      kCounters, tree_.workers, [](const Worker& worker) -> auto& { return worker.counters; },
      visitor);
  visitor({"leaves", "Leaves of the tree", CounterKind::kGauge,
           static_cast<double>(tree_.leaves.used_units())});
  visitor({"inner_nodes", "Nodes above the leaves", CounterKind::kGauge,
           static_cast<double>(tree_.inner.node_count())});
  tree_.background.VisitCounters(visitor);
}

template <class C>
MemoryUse LbTree<C>::GetMemoryUse() const {
  MemoryUse use;
  use.medium_bytes = tree_.leaves.used_units() * tree_.leaf_bytes() + tree_.slab.used_bytes();
  use.dram_bytes = tree_.dram.used_bytes() + tree_.locks.bytes();
  return use;
}

template <class C>
RecoveryState LbTree<C>::GetRecoveryState() const {
  return tree_.rest.state();
}

// Everything acknowledged is already durable; retired records are freed.
template <class C>
absl::Status LbTree<C>::Close() {
  (void)tree_.rest.FinishNow();
  tree_.background.Stop();
  if (tree_.medium.failed()) return absl::UnavailableError("a sync of the medium has failed");
  tree_.workers.ForEach([&](Worker& worker) { worker.retired.HandTo(tree_.reclaimer); });
  (void)tree_.reclaimer.Drain();
  return absl::OkStatus();
}

template <class C>
void LbTree<C>::Abandon() {
  tree_.background.Stop();
}

template class LbTree<Fixed64Codec>;
template class LbTree<BytesCodec>;

}  // namespace lodgekv::lbtree
