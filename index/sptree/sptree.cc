#include "index/sptree/sptree.h"

#include "index/pmem/naw_section.h"
#include "index/sptree/leaf_image.h"
#include "index/sptree/leaf_walk.h"
#include "index/sptree/writes.h"

namespace lodgekv::sptree {

namespace {

constexpr CounterText kCounters[WorkerCounters::kCount] = {
    {"inserts_total", "Pairs inserted"},
    {"updates_total", "Values of existing keys replaced"},
    {"deletes_total", "Pairs deleted"},
    {"leaf_splits_total", "Leaf splits"},
    {"leaf_merges_total", "Leaves merged into their left neighbour"},
    {"sorted_leaves_total", "Leaves whose slots a scan has put in order"},
    {"batches_total", "Atomic batches committed"},
    {"groups_total", "Groups of operations committed under shared fences"},
    {"buffered_writes_total", "Operations that went to the log and a write buffer"},
    {"superseded_pairs_total", "Buffered pairs replaced before they reached their leaf"},
    {"holding_buffers_total", "Write buffers that got something by which a flush frees space"},
    {"buffer_flushes_total", "Write buffers merged into their leaf"},
    {"holding_flushes_total", "Flushes of buffers that held space"},
    {"past_buffers_total", "Operations that found the memory of write buffers at its limit"},
    {"starved_flushes_total", "Write buffers flushed because their memory was at its limit"},
    {"log_reclaims_total", "Old logs emptied because live logs came near their limit"},
};

}  // namespace

template <class C>
SpTree<C>::SpTree(const EngineContext& context)
    : tree_(context), lookups_(tree_), pair_writer_(tree_) {}

template <class C>
SpTree<C>::~SpTree() {
  tree_.background.Stop();
}

// A pool begins with one empty leaf.
template <class C>
absl::StatusOr<std::unique_ptr<Engine>> SpTree<C>::Create(const EngineContext& context) {
  std::unique_ptr<SpTree> engine(new SpTree(context));
  TreeState<C>& tree = engine->tree_;
  const pmem::Offset offset = tree.bnodes.Allocate(pmem::ReservePolicy::kKeep);
  if (offset == 0) return absl::ResourceExhaustedError("the pool has no room for a first leaf");
  if (tree.buffers()) tree.log.TakeOwnChunks();
  media::Bnode* first = tree.BnodeAt(offset);
  LeafImage image;
  FillImage<C>(tree, {}, FenceWords(), 0, &image);
  tree.medium.StoreBulk(first, &image, image.bytes());
  pmem::NawSection section(tree.medium);
  if (!tree.medium.Canary("sptree.create.leaf_not_flushed")) section.Flush(first, image.bytes());
  section.Commit(tree.pool.engine_area()[media::kFirstLeaf], CheckedWord(offset));
  Mnode<C>* mnode = tree.mnodes.New();
  SetMnode<C>(tree.codec, first, 0, {}, mnode);
  mnode->low = mnode->high = C::MinusInfinity();
  mnode->right = nullptr;
  tree.top.Build({&mnode, 1});
  return engine;
}

template <class C>
Outcome SpTree<C>::Write(std::span<const WriteOp> ops, std::span<WriteResult> results,
                         const WriteOptions& options) {
  return WriteToTree<C>(pair_writer_, ops, results, options);
}

template <class C>
uint64_t SpTree<C>::CountKeys() {
  return LeafWalk<C>(tree_).CountKeys();
}

template <class C>
uint64_t SpTree<C>::AppliedIndex() const {
  return tree_.applied.value();
}

template <class C>
void SpTree<C>::VisitCounters(CounterVisitor visitor) const {
  VisitSums(
      kCounters, tree_.workers, [](const Worker& worker) -> auto& { return worker.counters; },
      visitor);
  visitor({"leaves", "Leaves of the tree", CounterKind::kGauge,
           static_cast<double>(tree_.mnodes.count())});
  visitor({"inner_nodes", "Nodes above the leaves", CounterKind::kGauge,
           static_cast<double>(tree_.top.node_count())});
  tree_.log.VisitCounters(visitor);
  visitor({"buffer_dram_bytes", "Memory of write buffers", CounterKind::kGauge,
           static_cast<double>(tree_.buffer_pool.bytes())});
  visitor({"backups_total", "Backups of the top layer written", CounterKind::kCounter,
           static_cast<double>(tree_.backup.written())});
  visitor({"backup_walks_total", "Walks over all leaves for a backup of the top layer",
           CounterKind::kCounter, static_cast<double>(tree_.backup.walks())});
  visitor({"backup_entries", "Leaves that the backup of the top layer names", CounterKind::kGauge,
           static_cast<double>(tree_.backup.entries())});
  visitor({"backup_lost", "1 if the backup of the top layer was found damaged at the start, or 0",
           CounterKind::kGauge, tree_.backup.lost() ? 1.0 : 0.0});
  tree_.background.VisitCounters(visitor);
}

template <class C>
MemoryUse SpTree<C>::GetMemoryUse() const {
  MemoryUse use;
  use.medium_bytes = tree_.bnodes.used_units() * sizeof(media::Bnode) + tree_.slab.used_bytes() +
                     tree_.log.live_bytes();
  use.dram_bytes = tree_.dram.used_bytes() + tree_.log.dram_bytes();
  return use;
}

template <class C>
RecoveryState SpTree<C>::GetRecoveryState() const {
  return tree_.rest.state();
}

// Everything acknowledged is already durable; retired records are freed. If fences are
// instructions, everything buffered is flushed to its leaf, so that the next opening replays
// nothing. On a file each flush would wait for the disk.
template <class C>
absl::Status SpTree<C>::Close() {
  (void)tree_.rest.FinishNow();
  tree_.background.Stop();
  if (tree_.medium.failed()) return absl::UnavailableError("a sync of the medium has failed");
  if (!tree_.medium.long_fences()) {
    BufferReclaimer<C>(tree_, tree_.workers.Current()).FlushAll();
  }
  tree_.workers.ForEach([&](Worker& worker) { worker.retired.HandTo(tree_.reclaimer); });
  (void)tree_.reclaimer.Drain();
  return tree_.sweep.status();
}

template <class C>
void SpTree<C>::Abandon() {
  tree_.background.Stop();
}

template class SpTree<Fixed64Codec>;
template class SpTree<BytesCodec>;

}  // namespace lodgekv::sptree
