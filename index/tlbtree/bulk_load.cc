// Bulk load at a chosen fill: writes leaves, roots and anchors one after another, each once, leaves
// with streaming stores; then the top layer over them. The crash table: README.md, Bulk load.
// Nothing reads the engine area before the pool has an engine, so its steps need no order.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "index/node/sorted_pairs.h"
#include "index/pmem/crash_point.h"
#include "index/tlbtree/leaf_divider.h"
#include "index/tlbtree/tlbtree.h"

namespace lodgekv::tlbtree {

namespace {

// If a fence is an instruction: few lines are in flight, and blocks are counted right (medium.h).
constexpr size_t kLeavesPerFence = 8;

// One load, into a pool without other users. Used by one thread.
template <class C>
class BulkLoader {
 public:
  using Node = media::Node<C>;

  BulkLoader(TreeState<C>& tree, const lodgekv::BulkLoad& load)
      : tree_(tree),
        medium_(tree.medium),
        divider_(tree),
        stages_(tree.pool, tree.slab, tree.codec, tree.values),
        pairs_(load.source, tree.codec),
        in_100_leaves_(std::max(100u, load.fill_percent * tree.parameters.leaf_slots)),
        children_wanted_(
            tree.parameters.height == 1
                ? 1
                : std::max(2u, (tree.parameters.node_slots + 1) * load.fill_percent / 100)) {}

  absl::Status Run();

 private:
  absl::Status StageNext(const WriteOp& op, Pair* pair);
  absl::Status Begin();
  absl::Status EndLeaf(Pair next);
  absl::Status EndSubIndex(pmem::Offset next_anchor);
  void WriteLeaf(const LinkTo& sibling);
  absl::Status Finish();
  absl::Status PoolIsFull() const;
  // Pairs for leaf number `n`, so that all leaves together have the wanted fill.
  unsigned WantedIn(uint64_t n) const {
    return static_cast<unsigned>(in_100_leaves_ * (n + 1) / 100 - in_100_leaves_ * n / 100);
  }

  TreeState<C>& tree_;
  pmem::Medium& medium_;
  LeafDivider<C> divider_;
  OpStages<C> stages_;
  SortedPairs<C> pairs_;
  const uint64_t in_100_leaves_;  // pairs
  const unsigned children_wanted_;
  // The current leaf, and the current sub-index.
  pmem::Offset leaf_ = 0;
  Low low_;
  Pair in_leaf_[Node::kSlots];
  unsigned count_ = 0;
  uint64_t leaves_ = 0;
  pmem::Offset anchor_ = 0;
  std::vector<LinkTo> children_;
  std::vector<typename TopLayer<C>::Entry> sub_indices_;
};

template <class C>
absl::Status BulkLoader<C>::Begin() {
  leaf_ = tree_.nodes.Allocate(pmem::ReservePolicy::kKeep);
  anchor_ = tree_.anchors.Allocate(pmem::ReservePolicy::kKeep);
  return leaf_ == 0 || anchor_ == 0 ? PoolIsFull() : absl::OkStatus();
}

template <class C>
absl::Status BulkLoader<C>::Run() {
  absl::Status status = Begin();
  unsigned wanted = WantedIn(0);
  for (WriteOp op; status.ok();) {
    const absl::StatusOr<bool> more = pairs_.Next(&op);
    if (!more.ok()) return more.status();
    if (!*more) break;
    Pair pair;
    status = StageNext(op, &pair);
    if (status.ok() && count_ == wanted) {
      status = EndLeaf(pair);
      wanted = WantedIn(leaves_);
    }
    if (status.ok()) in_leaf_[count_++] = pair;
  }
  if (!status.ok()) return status;
  WriteLeaf({});
  status = EndSubIndex(0);
  return status.ok() ? Finish() : status;
}

template <class C>
absl::Status BulkLoader<C>::StageNext(const WriteOp& op, Pair* pair) {
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
  const pmem::Offset following = tree_.nodes.Allocate(pmem::ReservePolicy::kKeep);
  const std::string text = divider_.TextBetween(in_leaf_[count_ - 1], next);
  Low low;
  if (following == 0 || !MakeLow(tree_, text, pmem::ReservePolicy::kKeep, &low)) {
    return PoolIsFull();
  }
  WriteLeaf(MakeLink(following, low));
  if (children_.size() == children_wanted_) {
    const pmem::Offset next_anchor = tree_.anchors.Allocate(pmem::ReservePolicy::kKeep);
    if (next_anchor == 0) return PoolIsFull();
    const absl::Status status = EndSubIndex(next_anchor);
    if (!status.ok()) return status;
    anchor_ = next_anchor;
  }
  low_ = low;
  leaf_ = following;
  count_ = 0;
  return absl::OkStatus();
}

template <class C>
void BulkLoader<C>::WriteLeaf(const LinkTo& sibling) {
  NodeImage<C> image;
  image.SetSibling(0, sibling);
  image.SetPairs(count_, tree_.parameters.leaf_slots, [&](unsigned i) { return in_leaf_[i]; });
  char* leaf = tree_.pool.template At<char>(leaf_);
  image.ForEachLine([&](size_t at, const void* line) { medium_.StreamLine(leaf + at, line); });
  children_.push_back({low_, leaf_});
  ++leaves_;
  if (!medium_.long_fences() && leaves_ % kLeavesPerFence == 0) medium_.Fence();
}

template <class C>
absl::Status BulkLoader<C>::EndSubIndex(pmem::Offset next_anchor) {
  const size_t count = children_.size();
  const pmem::Offset root = count == 1 ? children_[0].node() : MakeRoot<C>(tree_, children_);
  Low low;
  const std::string text = OwnTextOfLow<C>(tree_.pool, children_[0].low);
  if (root == 0 || !MakeLow(tree_, sub_indices_.empty() ? std::string() : text,
                            pmem::ReservePolicy::kKeep, &low)) {
    return PoolIsFull();
  }
  StoreAnchor(tree_, anchor_, {.node = root, .height = count == 1 ? 1u : 2u}, next_anchor, low);
  medium_.FlushLine(tree_.AnchorAt(anchor_));
  sub_indices_.push_back({anchor_, low});
  children_.clear();
  return absl::OkStatus();
}

template <class C>
absl::Status BulkLoader<C>::Finish() {
  pmem::Word& first = tree_.pool.engine_area()[media::kFirstAnchor];
  LODGEKV_CRASH_POINT(medium_, "tlbtree.bulk_load.1");
  medium_.Store(first, CheckedWord(sub_indices_[0].anchor));
  medium_.FlushLine(&first);
  LODGEKV_CRASH_POINT(medium_, "tlbtree.bulk_load.2");
  medium_.Fence();
  LODGEKV_CRASH_POINT(medium_, "tlbtree.bulk_load.3");
  // Without room for it the search begins at the first sub-index, until there is room.
  if (sub_indices_.size() > 1) (void)tree_.top.Replace(sub_indices_, tree_.parameters.gaps);
  if (medium_.failed()) return absl::DataLossError("bulk load: a sync of the medium failed");
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
absl::StatusOr<std::unique_ptr<Engine>> TlbTree<C>::BulkLoad(const EngineContext& context,
                                                             const lodgekv::BulkLoad& load) {
  absl::Status status = CheckFill(load.fill_percent);
  if (!status.ok()) return status;
  std::unique_ptr<TlbTree> engine(new TlbTree(context));
  status = BulkLoader<C>(engine->tree_, load).Run();
  if (status.ok()) return engine;
  engine.reset();
  context.pool->ResetForEngine();
  return status;
}

template class TlbTree<Fixed64Codec>;
template class TlbTree<BytesCodec>;

}  // namespace lodgekv::tlbtree
