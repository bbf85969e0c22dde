#include "index/sstree/sstree.h"

#include "index/sstree/leaf_walk.h"
#include "index/sstree/writes.h"

namespace lodgekv::sstree {

namespace {

constexpr CounterText kCounters[WorkerCounters::kCount] = {
    {"inserts_total", "Pairs inserted"},
    {"head_replacements_total", "New head subnodes before a full one"},
    {"filled_holes_total", "Inserts into a free slot of an overflow subnode"},
    {"moved_entries_total", "Entries moved out of a head's first line"},
    {"updates_total", "Values of existing keys replaced"},
    {"moved_items_total", "Pairs moved from an overflow subnode to the head by updates"},
    {"reclaimed_subnodes_total", "Empty overflow subnodes freed"},
    {"leaf_splits_total", "Leaf splits"},
    {"appended_leaves_total", "Leaves begun by a pair above all of a full leaf's"},
    {"deletes_total", "Pairs deleted"},
    {"dropped_leaves_total", "Leaves dropped with their last pair"},
    {"batches_total", "Atomic batches committed"},
    {"groups_total", "Groups of operations committed under shared fences"},
};

}  // namespace

template <class C>
SsTree<C>::SsTree(const EngineContext& context)
    : tree_(context), lookups_(tree_), pair_writer_(tree_) {}

template <class C>
SsTree<C>::~SsTree() {
  tree_.background.Stop();
}

// A pool begins with one leaf, of which nothing is on the medium until it has a pair.
template <class C>
absl::StatusOr<std::unique_ptr<Engine>> SsTree<C>::Create(const EngineContext& context) {
  std::unique_ptr<SsTree> engine(new SsTree(context));
  TreeState<C>& tree = engine->tree_;
  // So that a pool without room is refused now.
  const pmem::Offset subnode = tree.subnodes.Allocate(pmem::ReservePolicy::kKeep);
  if (subnode == 0) return absl::ResourceExhaustedError("the pool has no room for a first leaf");
  tree.subnodes.Free(subnode);
  const typename TreeState<C>::Inner::Child child{C::MinusInfinity(), tree.leaves.New()};
  tree.inner.Build({&child, 1});
  return engine;
}

template <class C>
Outcome SsTree<C>::Write(std::span<const WriteOp> ops, std::span<WriteResult> results,
                         const WriteOptions& options) {
  return WriteToTree<C>(pair_writer_, ops, results, options);
}

template <class C>
uint64_t SsTree<C>::CountKeys() {
  return LeafWalk<C>(tree_).CountKeys();
}

template <class C>
uint64_t SsTree<C>::AppliedIndex() const {
  return tree_.applied.value();
}

template <class C>
void SsTree<C>::VisitCounters(CounterVisitor visitor) const {
  VisitSums(
      kCounters, tree_.workers, [](const Worker& worker) -> auto& { return worker.counters; },
      visitor);
  visitor({"leaves", "Leaves of the tree", CounterKind::kGauge,
           static_cast<double>(tree_.leaves.count())});
  visitor({"subnodes", "Subnodes of all leaves", CounterKind::kGauge,
           static_cast<double>(tree_.subnodes.used_units())});
  visitor({"inner_nodes", "Nodes above the leaves", CounterKind::kGauge,
           static_cast<double>(tree_.inner.node_count())});
  tree_.background.VisitCounters(visitor);
}

template <class C>
MemoryUse SsTree<C>::GetMemoryUse() const {
  MemoryUse use;
  use.medium_bytes = tree_.subnodes.used_units() * sizeof(media::Subnode) + tree_.slab.used_bytes();
  use.dram_bytes = tree_.dram.used_bytes() + tree_.leaf_range.used_bytes();
  return use;
}

template <class C>
RecoveryState SsTree<C>::GetRecoveryState() const {
  return tree_.rest.state();
}

// Everything acknowledged is already durable; retired records are freed.
template <class C>
absl::Status SsTree<C>::Close() {
  (void)tree_.rest.FinishNow();
  tree_.background.Stop();
  tree_.workers.ForEach([&](Worker& worker) {
    for (const Worker::CutOff& cut : worker.cut_off) {
      (void)tree_.subnodes.FlushHead(tree_.pool.OffsetOf(cut.before));
    }
  });
  tree_.medium.Fence();
  if (tree_.medium.failed()) return absl::UnavailableError("a sync of the medium has failed");
  tree_.workers.ForEach([&](Worker& worker) { worker.retired.HandTo(tree_.reclaimer); });
  (void)tree_.reclaimer.Drain();
  return absl::OkStatus();
}

template <class C>
void SsTree<C>::Abandon() {
  tree_.background.Stop();
}

template class SsTree<Fixed64Codec>;
template class SsTree<BytesCodec>;

}  // namespace lodgekv::sstree
