// Bulk load at a chosen fill: writes leaves, roots and anchors one after another, each once, leaves
// with streaming stores; then the top layer over them. The crash table: README.md, Bulk load.
// Nothing reads the engine area before the pool has an engine, so its steps need no order.
#include <algorithm>

#include "index/node/bulk_loader.h"
#include "index/pmem/crash_point.h"
#include "index/tlbtree/leaf_divider.h"
#include "index/tlbtree/tlbtree.h"

namespace lodgekv::tlbtree {

namespace {

// What a bulk load writes (node/bulk_loader.h).
template <class C>
class LoadedLeaves {
 public:
  LoadedLeaves(TreeState<C>& tree, unsigned fill_percent)
      : tree_(tree),
        medium_(tree.medium),
        divider_(tree),
        children_wanted_(
            tree.parameters.height == 1
                ? 1
                : std::max(2u, (tree.parameters.node_slots + 1) * fill_percent / 100)) {}

  bool Begin() {
    leaf_ = tree_.nodes.Allocate(pmem::ReservePolicy::kKeep);
    anchor_ = tree_.anchors.Allocate(pmem::ReservePolicy::kKeep);
    return leaf_ != 0 && anchor_ != 0;
  }
  bool EndLeaf(std::span<const Pair> pairs, Pair next);
  bool EndLast(std::span<const Pair> pairs) {
    WriteLeaf(pairs, {});
    return EndSubIndex(0);
  }
  void Commit();
  // Without room for it the search begins at the first sub-index, until there is room.
  void BuildAbove() {
    if (sub_indices_.size() > 1) (void)tree_.top.Replace(sub_indices_, tree_.parameters.gaps);
  }

 private:
  bool EndSubIndex(pmem::Offset next_anchor);
  void WriteLeaf(std::span<const Pair> pairs, const LinkTo& sibling);

  TreeState<C>& tree_;
  pmem::Medium& medium_;
  LeafDivider<C> divider_;
  const unsigned children_wanted_;
  // The current leaf, and the current sub-index.
  pmem::Offset leaf_ = 0;
  Low low_;
  pmem::Offset anchor_ = 0;
  std::vector<LinkTo> children_;
  std::vector<typename TopLayer<C>::Entry> sub_indices_;
};

template <class C>
bool LoadedLeaves<C>::EndLeaf(std::span<const Pair> pairs, Pair next) {
  const pmem::Offset following = tree_.nodes.Allocate(pmem::ReservePolicy::kKeep);
  const std::string text = divider_.TextBetween(pairs.back(), next);
  Low low;
  if (following == 0 || !MakeLow(tree_, text, pmem::ReservePolicy::kKeep, &low)) return false;
  WriteLeaf(pairs, MakeLink(following, low));
  if (children_.size() == children_wanted_) {
    const pmem::Offset next_anchor = tree_.anchors.Allocate(pmem::ReservePolicy::kKeep);
    if (next_anchor == 0 || !EndSubIndex(next_anchor)) return false;
    anchor_ = next_anchor;
  }
  low_ = low;
  leaf_ = following;
  return true;
}

template <class C>
void LoadedLeaves<C>::WriteLeaf(std::span<const Pair> pairs, const LinkTo& sibling) {
  NodeImage<C> image;
  image.SetSibling(0, sibling);
  image.SetPairs(static_cast<unsigned>(pairs.size()), tree_.parameters.leaf_slots,
                 [&](unsigned i) { return pairs[i]; });
  char* leaf = tree_.pool.template At<char>(leaf_);
  image.ForEachLine([&](size_t at, const void* line) { medium_.StreamLine(leaf + at, line); });
  children_.push_back({low_, leaf_});
}

template <class C>
bool LoadedLeaves<C>::EndSubIndex(pmem::Offset next_anchor) {
  const size_t count = children_.size();
  const pmem::Offset root = count == 1 ? children_[0].node() : MakeRoot<C>(tree_, children_);
  Low low;
  const std::string text = OwnTextOfLow<C>(tree_.pool, children_[0].low);
  if (root == 0 || !MakeLow(tree_, sub_indices_.empty() ? std::string() : text,
                            pmem::ReservePolicy::kKeep, &low)) {
    return false;
  }
  StoreAnchor(tree_, anchor_, {.node = root, .height = count == 1 ? 1u : 2u}, next_anchor, low);
  medium_.FlushLine(tree_.AnchorAt(anchor_));
  sub_indices_.push_back({anchor_, low});
  children_.clear();
  return true;
}

template <class C>
void LoadedLeaves<C>::Commit() {
  pmem::Word& first = tree_.pool.engine_area()[media::kFirstAnchor];
  LODGEKV_CRASH_POINT(medium_, "tlbtree.bulk_load.1");
  medium_.Store(first, CheckedWord(sub_indices_[0].anchor));
  medium_.FlushLine(&first);
  LODGEKV_CRASH_POINT(medium_, "tlbtree.bulk_load.2");
  medium_.Fence();
  LODGEKV_CRASH_POINT(medium_, "tlbtree.bulk_load.3");
}

}  // namespace

template <class C>
absl::StatusOr<std::unique_ptr<Engine>> TlbTree<C>::BulkLoad(const EngineContext& context,
                                                             const lodgekv::BulkLoad& load) {
  return CreateLoaded(
      context, load, [&] { return std::unique_ptr<TlbTree>(new TlbTree(context)); },
      [&](TlbTree& engine) {
        TreeState<C>& tree = engine.tree_;
        LoadedLeaves<C> leaves(tree, load.fill_percent);
        return BulkLoader<C, LoadedLeaves<C>>(tree, load, tree.parameters.leaf_slots, leaves).Run();
      });
}

template class TlbTree<Fixed64Codec>;
template class TlbTree<BytesCodec>;

}  // namespace lodgekv::tlbtree
