// Bulk load at a chosen fill (LB+-Tree 4.2): writes the leaves one after another, each once, with
// streaming stores; then builds the inner tree over them. The crash table: README.md, Bulk load.
// Nothing reads the engine area before the pool has an engine, so its steps 1 and 2 need no order.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "index/lbtree/lbtree.h"
#include "index/lbtree/leaf_image.h"
#include "index/node/sorted_pairs.h"
#include "index/pmem/crash_point.h"

namespace lodgekv::lbtree {

namespace {
// If a fence is an instruction: few lines are in flight, and blocks are counted right (medium.h).
constexpr size_t kLeavesPerFence = 8;

// One load, into a pool without other users. Used by one thread.
template <class C>
class BulkLoader {
 public:
  BulkLoader(TreeState<C>& tree, const lodgekv::BulkLoad& load)
      : tree_(tree),
        medium_(tree.medium),
        stages_(tree.pool, tree.slab, tree.codec, tree.values),
        pairs_(load.source, tree.codec),
        in_100_leaves_(
            std::max(100u, load.fill_percent * tree.parameters.leaf_slots * tree.blocks)) {}

  absl::Status Run();

 private:
  absl::Status Stage(const WriteOp& op, Pair* pair);
  absl::Status EndLeaf(Pair next);
  void WriteLeaf(pmem::Offset sibling);
  absl::Status Finish();
  absl::Status PoolIsFull() const;
  // Pairs for leaf number `n`, so that all leaves together have the wanted fill.
  unsigned WantedIn(uint64_t n) const {
    return static_cast<unsigned>(in_100_leaves_ * (n + 1) / 100 - in_100_leaves_ * n / 100);
  }

  TreeState<C>& tree_;
  pmem::Medium& medium_;
  OpStages<C> stages_;
  SortedPairs<C> pairs_;
  const uint64_t in_100_leaves_;  // pairs
  // The current leaf.
  pmem::Offset leaf_ = 0;
  typename C::Separator low_ = C::MinusInfinity();
  Pair in_leaf_[kMaxLeafSlots];
  unsigned count_ = 0;
  std::vector<typename TreeState<C>::Inner::Child> leaves_;  // the leaves before it
};

template <class C>
absl::Status BulkLoader<C>::Run() {
  leaf_ = tree_.leaves.Allocate(pmem::ReservePolicy::kKeep);
  if (leaf_ == 0) return PoolIsFull();
  unsigned wanted = WantedIn(0);
  for (WriteOp op;;) {
    const absl::StatusOr<bool> more = pairs_.Next(&op);
    if (!more.ok()) return more.status();
    if (!*more) break;
    Pair pair;
    absl::Status status = Stage(op, &pair);
    if (status.ok() && count_ == wanted) {
      status = EndLeaf(pair);
      wanted = WantedIn(leaves_.size());
    }
    if (!status.ok()) return status;
    in_leaf_[count_++] = pair;
  }
  WriteLeaf(0);
  return Finish();
}

template <class C>
absl::Status BulkLoader<C>::Stage(const WriteOp& op, Pair* pair) {
  PendingOp<C> pending;
  WriteResult result;
  stages_.Begin(op, &result, &pending);
  if (stages_.Stage(&pending) != Outcome::kOk) return PoolIsFull();
  stages_.Finish(&pending);
  *pair = pending.staged.pair;
  return absl::OkStatus();
}

// `next` is the first pair of the following leaf.
template <class C>
absl::Status BulkLoader<C>::EndLeaf(Pair next) {
  const pmem::Offset following = tree_.leaves.Allocate(pmem::ReservePolicy::kKeep);
  if (following == 0) return PoolIsFull();
  WriteLeaf(following);
  low_ = tree_.codec.Between(in_leaf_[count_ - 1], next, tree_.texts);
  leaf_ = following;
  count_ = 0;
  return absl::OkStatus();
}

template <class C>
void BulkLoader<C>::WriteLeaf(pmem::Offset sibling) {
  LeafImage image;
  FillImage(tree_, {in_leaf_, count_}, CheckedWord(sibling), &image);
  char* leaf = tree_.pool.template At<char>(leaf_);
  image.ForEachLine(tree_.blocks,
                    [&](size_t at, const char* line) { medium_.StreamLine(leaf + at, line); });
  leaves_.push_back({low_, tree_.LeafAt(leaf_)});
  if (!medium_.long_fences() && leaves_.size() % kLeavesPerFence == 0) medium_.Fence();
}

template <class C>
absl::Status BulkLoader<C>::Finish() {
  const auto area = tree_.pool.engine_area();
  LODGEKV_CRASH_POINT(medium_, "lbtree.bulk_load.1");
  medium_.Store(area[media::kBlocks], CheckedWord(tree_.blocks));
  medium_.Store(area[media::kFirstLeaf], CheckedWord(tree_.pool.OffsetOf(leaves_[0].node)));
  medium_.Flush(area.data(), media::kIntents * sizeof(pmem::Word));
  LODGEKV_CRASH_POINT(medium_, "lbtree.bulk_load.2");
  medium_.Fence();
  LODGEKV_CRASH_POINT(medium_, "lbtree.bulk_load.3");
  if (medium_.failed()) return absl::DataLossError("bulk load: a sync of the medium failed");
  tree_.inner.Build(leaves_);
  return absl::OkStatus();
}

template <class C>
absl::Status BulkLoader<C>::PoolIsFull() const {
  return absl::ResourceExhaustedError(
      absl::StrCat("bulk load: the pool is full, there is no room for pair ", pairs_.count(),
                   "; nothing of the load is kept; make a larger pool"));
}

}  // namespace

template <class C>
absl::StatusOr<std::unique_ptr<Engine>> LbTree<C>::BulkLoad(const EngineContext& context,
                                                            const lodgekv::BulkLoad& load) {
  absl::Status status = CheckFill(load.fill_percent);
  if (!status.ok()) return status;
  const auto blocks = static_cast<unsigned>(context.options.Get("leaf_blocks"));
  std::unique_ptr<LbTree> engine(new LbTree(context, blocks));
  status = BulkLoader<C>(engine->tree_, load).Run();
  if (status.ok()) return engine;
  engine.reset();
  context.pool->ResetForEngine();
  return status;
}

template class LbTree<Fixed64Codec>;
template class LbTree<BytesCodec>;

}  // namespace lodgekv::lbtree
