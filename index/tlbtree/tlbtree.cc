#include "index/tlbtree/tlbtree.h"

#include "index/pmem/naw_section.h"
#include "index/tlbtree/leaf_walk.h"
#include "index/tlbtree/writes.h"

namespace lodgekv::tlbtree {

namespace {

constexpr CounterText kCounters[WorkerCounters::kCount] = {
    {"one_line_inserts_total", "Inserts whose slot was in the state word's line"},
    {"two_line_inserts_total", "Inserts that wrote a second line"},
    {"moved_entries_total", "Pairs moved out of a state word's line"},
    {"leaf_splits_total", "Leaf splits"},
    {"leaf_merges_total", "Leaves that were joined with their left neighbours"},
    {"sub_index_splits_total", "Sub-indices that became two"},
    {"sub_index_merges_total", "Sub-indices that went to their left neighbours"},
    {"entries_made_total", "Entries above leaves, made after splits or because they were missing"},
    {"updates_total", "Values stored for an existing key"},
    {"deletes_total", "Pairs deleted"},
    {"batches_total", "Atomic batches committed"},
    {"groups_total", "Groups of operations committed under shared fences"},
    {"sideways_steps_total", "Steps of writers from a sub-index or leaf to the one beside it"},
    {"rebuilds_total", "Rebuilds of the top layer"},
};

}  // namespace

template <class C>
TlbTree<C>::TlbTree(const EngineContext& context)
    : tree_(context), lookups_(tree_), pair_writer_(tree_) {}

template <class C>
TlbTree<C>::~TlbTree() {
  tree_.background.Stop();
}

// A pool begins with one sub-index of one empty leaf.
template <class C>
absl::StatusOr<std::unique_ptr<Engine>> TlbTree<C>::Create(const EngineContext& context) {
  std::unique_ptr<TlbTree> engine(new TlbTree(context));
  TreeState<C>& tree = engine->tree_;
  const pmem::Offset leaf = tree.nodes.Allocate(pmem::ReservePolicy::kKeep);
  const pmem::Offset anchor = tree.anchors.Allocate(pmem::ReservePolicy::kKeep);
  if (leaf == 0 || anchor == 0) {
    return absl::ResourceExhaustedError("the pool has no room for a first leaf and its anchor");
  }
  pmem::Medium& medium = tree.medium;
  NodeImage<C> image;
  image.SetSibling(0, {});
  image.StoreTo(medium, tree.NodeAt(leaf));
  StoreAnchor(tree, anchor, {.node = leaf}, 0, {});
  pmem::NawSection section(medium);
  if (!medium.Canary("tlbtree.create.leaf_not_flushed")) {
    section.Flush(tree.NodeAt(leaf), sizeof(media::Node<C>));
  }
  section.Flush(tree.AnchorAt(anchor), sizeof(media::Anchor));
  section.Commit(tree.pool.engine_area()[media::kFirstAnchor], CheckedWord(anchor));
  return engine;
}

template <class C>
Outcome TlbTree<C>::Write(std::span<const WriteOp> ops, std::span<WriteResult> results,
                          const WriteOptions& options) {
  return WriteToTree<C>(pair_writer_, ops, results, options);
}

template <class C>
uint64_t TlbTree<C>::CountKeys() {
  return LeafWalk<C>(tree_).CountKeys();
}

template <class C>
uint64_t TlbTree<C>::AppliedIndex() const {
  return tree_.applied.value();
}

template <class C>
void TlbTree<C>::VisitCounters(CounterVisitor visitor) const {
  VisitSums(
      kCounters, tree_.workers, [](const Worker& worker) -> auto& { return worker.counters; },
      visitor);
  const auto gauge = [&](std::string_view name, std::string_view help, uint64_t value) {
    visitor({name, help, CounterKind::kGauge, static_cast<double>(value)});
  };
  gauge("nodes", "Leaves and roots of sub-indices", tree_.nodes.used_units());
  gauge("sub_indices", "Sub-indices, with dead ones whose anchors are not free yet",
        tree_.anchors.used_units());
  gauge("top_entries", "Sub-indices that the top layer leads to", tree_.top.entries());
  tree_.background.VisitCounters(visitor);
}

template <class C>
MemoryUse TlbTree<C>::GetMemoryUse() const {
  MemoryUse use;
  use.medium_bytes = tree_.nodes.used_units() * sizeof(media::Node<C>) +
                     tree_.anchors.used_units() * sizeof(media::Anchor) + tree_.slab.used_bytes();
  use.dram_bytes = tree_.locks.bytes() + tree_.top.dram_bytes();
  return use;
}

template <class C>
RecoveryState TlbTree<C>::GetRecoveryState() const {
  return tree_.rest.state();
}

// Everything acknowledged is already durable; retired records are freed.
template <class C>
absl::Status TlbTree<C>::Close() {
  (void)tree_.rest.FinishNow();
  tree_.background.Stop();
  if (tree_.medium.failed()) return absl::UnavailableError("a sync of the medium has failed");
  tree_.workers.ForEach([&](Worker& worker) { worker.retired.HandTo(tree_.reclaimer); });
  (void)tree_.reclaimer.Drain();
  return tree_.sweep.status();
}

template <class C>
void TlbTree<C>::Abandon() {
  tree_.background.Stop();
}

template class TlbTree<Fixed64Codec>;
template class TlbTree<BytesCodec>;

}  // namespace lodgekv::tlbtree
