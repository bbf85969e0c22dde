// Bulk load at a chosen fill (LB+-Tree 4.2): writes the leaves one after another, each once, with
// streaming stores; then builds the inner tree over them. The crash table: README.md, Bulk load.
// Nothing reads the engine area before the pool has an engine, so its steps 1 and 2 need no order.
#include "index/lbtree/lbtree.h"
#include "index/lbtree/leaf_image.h"
#include "index/node/bulk_loader.h"
#include "index/pmem/crash_point.h"

namespace lodgekv::lbtree {

namespace {

// What a bulk load writes (node/bulk_loader.h).
template <class C>
class LoadedLeaves {
 public:
  explicit LoadedLeaves(TreeState<C>& tree) : tree_(tree), medium_(tree.medium) {}

  bool Begin() {
    leaf_ = tree_.leaves.Allocate(pmem::ReservePolicy::kKeep);
    return leaf_ != 0;
  }
  bool EndLeaf(std::span<const Pair> pairs, Pair next);
  bool EndLast(std::span<const Pair> pairs) {
    WriteLeaf(pairs, 0);
    return true;
  }
  void Commit();
  void BuildAbove() { tree_.inner.Build(leaves_); }

 private:
  void WriteLeaf(std::span<const Pair> pairs, pmem::Offset sibling);

  TreeState<C>& tree_;
  pmem::Medium& medium_;
  // The current leaf.
  pmem::Offset leaf_ = 0;
  typename C::Separator low_ = C::MinusInfinity();
  std::vector<typename TreeState<C>::Inner::Child> leaves_;  // the leaves before it
};

template <class C>
bool LoadedLeaves<C>::EndLeaf(std::span<const Pair> pairs, Pair next) {
  const pmem::Offset following = tree_.leaves.Allocate(pmem::ReservePolicy::kKeep);
  if (following == 0) return false;
  WriteLeaf(pairs, following);
  low_ = tree_.codec.Between(pairs.back(), next, tree_.texts);
  leaf_ = following;
  return true;
}

template <class C>
void LoadedLeaves<C>::WriteLeaf(std::span<const Pair> pairs, pmem::Offset sibling) {
  LeafImage image;
  FillImage(tree_, pairs, CheckedWord(sibling), &image);
  char* leaf = tree_.pool.template At<char>(leaf_);
  image.ForEachLine(tree_.blocks,
                    [&](size_t at, const char* line) { medium_.StreamLine(leaf + at, line); });
  leaves_.push_back({low_, tree_.LeafAt(leaf_)});
}

template <class C>
void LoadedLeaves<C>::Commit() {
  const auto area = tree_.pool.engine_area();
  LODGEKV_CRASH_POINT(medium_, "lbtree.bulk_load.1");
  medium_.Store(area[media::kBlocks], CheckedWord(tree_.blocks));
  medium_.Store(area[media::kFirstLeaf], CheckedWord(tree_.pool.OffsetOf(leaves_[0].node)));
  medium_.Flush(area.data(), media::kIntents * sizeof(pmem::Word));
  LODGEKV_CRASH_POINT(medium_, "lbtree.bulk_load.2");
  medium_.Fence();
  LODGEKV_CRASH_POINT(medium_, "lbtree.bulk_load.3");
}

}  // namespace

template <class C>
absl::StatusOr<std::unique_ptr<Engine>> LbTree<C>::BulkLoad(const EngineContext& context,
                                                            const lodgekv::BulkLoad& load) {
  const auto blocks = static_cast<unsigned>(context.options.Get("leaf_blocks"));
  return CreateLoaded(
      context, load, [&] { return std::unique_ptr<LbTree>(new LbTree(context, blocks)); },
      [&](LbTree& engine) {
        TreeState<C>& tree = engine.tree_;
        LoadedLeaves<C> leaves(tree);
        return BulkLoader<C, LoadedLeaves<C>>(tree, load, tree.parameters.leaf_slots * blocks,
                                              leaves)
            .Run();
      });
}

template class LbTree<Fixed64Codec>;
template class LbTree<BytesCodec>;

}  // namespace lodgekv::lbtree
