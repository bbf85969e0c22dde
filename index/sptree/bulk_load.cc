// Bulk load at a chosen fill: writes the leaves one after another, each once, with streaming
// stores; then builds the top layer over them. The crash table: README.md, Bulk load. Nothing reads
// the engine area before the pool has an engine, so its steps 1 and 2 need no order.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "index/node/sorted_pairs.h"
#include "index/pmem/crash_point.h"
#include "index/sptree/backup_work.h"
#include "index/sptree/leaf_image.h"
#include "index/sptree/low_fences.h"
#include "index/sptree/sptree.h"

namespace lodgekv::sptree {

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
        fences_(tree),
        pairs_(load.source, tree.codec),
        in_100_leaves_(std::max(100u, load.fill_percent * tree.parameters.leaf_slots)) {}

  absl::Status Run();

 private:
  absl::Status Stage(const WriteOp& op, Pair* pair);
  absl::Status EndLeaf(Pair next);
  void WriteLeaf(pmem::Offset next);
  absl::Status Finish();
  absl::Status PoolIsFull() const;
  // Pairs for leaf number `n`, so that all leaves together have the wanted fill.
  unsigned WantedIn(uint64_t n) const {
    return static_cast<unsigned>(in_100_leaves_ * (n + 1) / 100 - in_100_leaves_ * n / 100);
  }

  TreeState<C>& tree_;
  pmem::Medium& medium_;
  OpStages<C> stages_;
  LowFences<C> fences_;
  SortedPairs<C> pairs_;
  const uint64_t in_100_leaves_;  // pairs
  // The current leaf.
  pmem::Offset leaf_ = 0;
  typename C::Separator low_ = C::MinusInfinity();
  FenceWords fence_;
  Pair in_leaf_[kBnodeSlots];
  unsigned count_ = 0;
  std::vector<Mnode<C>*> leaves_;  // the leaves before it
};

template <class C>
absl::Status BulkLoader<C>::Run() {
  leaf_ = tree_.bnodes.Allocate(pmem::ReservePolicy::kKeep);
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
  const pmem::Offset following = tree_.bnodes.Allocate(pmem::ReservePolicy::kKeep);
  if (following == 0) return PoolIsFull();
  const auto low = tree_.codec.Between(in_leaf_[count_ - 1], next, tree_.texts);
  WriteLeaf(following);
  low_ = low;
  leaf_ = following;
  count_ = 0;
  return fences_.Make(tree_.workers.Current(), low_, &fence_) ? absl::OkStatus() : PoolIsFull();
}

template <class C>
void BulkLoader<C>::WriteLeaf(pmem::Offset next) {
  const std::span<const Pair> pairs(in_leaf_, count_);
  LeafImage image;
  FillImage(tree_, pairs, fence_, next, &image);
  char* to = tree_.pool.template At<char>(leaf_);
  const char* from = reinterpret_cast<const char*>(&image);
  for (size_t line = 0; line < image.bytes(); line += pmem::kLineBytes) {
    medium_.StreamLine(to + line, from + line);
  }
  Mnode<C>* mnode = tree_.mnodes.New();
  SetMnode(tree_.codec, tree_.BnodeAt(leaf_), image.bitmap, pairs, mnode);
  mnode->low = low_;
  mnode->high = C::MinusInfinity();
  mnode->right = nullptr;
  if (!leaves_.empty()) {
    leaves_.back()->right = mnode;
    leaves_.back()->high = low_;
    C::Keep(low_);
  }
  leaves_.push_back(mnode);
  if (!medium_.long_fences() && leaves_.size() % kLeavesPerFence == 0) medium_.Fence();
}

template <class C>
absl::Status BulkLoader<C>::Finish() {
  pmem::Word& first = tree_.pool.engine_area()[media::kFirstLeaf];
  LODGEKV_CRASH_POINT(medium_, "sptree.bulk_load.1");
  medium_.Store(first, CheckedWord(tree_.pool.OffsetOf(leaves_[0]->bnode)));
  medium_.FlushLine(&first);
  LODGEKV_CRASH_POINT(medium_, "sptree.bulk_load.2");
  medium_.Fence();
  LODGEKV_CRASH_POINT(medium_, "sptree.bulk_load.3");
  if (medium_.failed()) return absl::DataLossError("bulk load: a sync of the medium failed");
  tree_.top.Build(leaves_);
  BackupWork<C>(tree_).WriteNow(leaves_);
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
absl::StatusOr<std::unique_ptr<Engine>> SpTree<C>::BulkLoad(const EngineContext& context,
                                                            const lodgekv::BulkLoad& load) {
  absl::Status status = CheckFill(load.fill_percent);
  if (!status.ok()) return status;
  std::unique_ptr<SpTree> engine(new SpTree(context));
  if (engine->tree_.buffers()) engine->tree_.log.TakeOwnChunks();
  status = BulkLoader<C>(engine->tree_, load).Run();
  if (status.ok()) return engine;
  engine.reset();
  context.pool->ResetForEngine();
  return status;
}

template class SpTree<Fixed64Codec>;
template class SpTree<BytesCodec>;

}  // namespace lodgekv::sptree
