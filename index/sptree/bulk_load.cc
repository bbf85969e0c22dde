// Bulk load at a chosen fill: writes the leaves one after another, each once, with streaming
// stores; then builds the top layer over them. The crash table: README.md, Bulk load. Nothing reads
// the engine area before the pool has an engine, so its steps 1 and 2 need no order.
#include "index/node/bulk_loader.h"
#include "index/pmem/crash_point.h"
#include "index/sptree/backup_work.h"
#include "index/sptree/leaf_image.h"
#include "index/sptree/low_fences.h"
#include "index/sptree/sptree.h"

namespace lodgekv::sptree {

namespace {

// What a bulk load writes (node/bulk_loader.h).
template <class C>
class LoadedLeaves {
 public:
  explicit LoadedLeaves(TreeState<C>& tree) : tree_(tree), medium_(tree.medium), fences_(tree) {}

  bool Begin() {
    leaf_ = tree_.bnodes.Allocate(pmem::ReservePolicy::kKeep);
    return leaf_ != 0;
  }
  bool EndLeaf(std::span<const Pair> pairs, Pair next);
  bool EndLast(std::span<const Pair> pairs) {
    WriteLeaf(pairs, 0);
    return true;
  }
  void Commit();
  void BuildAbove() {
    tree_.top.Build(leaves_);
    BackupWork<C>(tree_).WriteNow(leaves_);
  }

 private:
  void WriteLeaf(std::span<const Pair> pairs, pmem::Offset next);
  void AddMnode(uint64_t bitmap, std::span<const Pair> pairs);

  TreeState<C>& tree_;
  pmem::Medium& medium_;
  LowFences<C> fences_;
  // The current leaf.
  pmem::Offset leaf_ = 0;
  typename C::Separator low_ = C::MinusInfinity();
  FenceWords fence_;
  std::vector<Mnode<C>*> leaves_;  // the leaves before it
};

template <class C>
bool LoadedLeaves<C>::EndLeaf(std::span<const Pair> pairs, Pair next) {
  const pmem::Offset following = tree_.bnodes.Allocate(pmem::ReservePolicy::kKeep);
  if (following == 0) return false;
  const auto low = tree_.codec.Between(pairs.back(), next, tree_.texts);
  WriteLeaf(pairs, following);
  low_ = low;
  leaf_ = following;
  return fences_.Make(tree_.workers.Current(), low_, &fence_);
}

template <class C>
void LoadedLeaves<C>::WriteLeaf(std::span<const Pair> pairs, pmem::Offset next) {
  LeafImage image;
  FillImage(tree_, pairs, fence_, next, &image);
  char* to = tree_.pool.template At<char>(leaf_);
  const char* from = reinterpret_cast<const char*>(&image);
  for (size_t line = 0; line < image.bytes(); line += pmem::kLineBytes) {
    medium_.StreamLine(to + line, from + line);
  }
  AddMnode(image.bitmap, pairs);
}

template <class C>
void LoadedLeaves<C>::AddMnode(uint64_t bitmap, std::span<const Pair> pairs) {
  Mnode<C>* mnode = tree_.mnodes.New();
  SetMnode(tree_.codec, tree_.BnodeAt(leaf_), bitmap, pairs, mnode);
  mnode->low = low_;
  mnode->high = C::MinusInfinity();
  mnode->right = nullptr;
  if (!leaves_.empty()) {
    leaves_.back()->right = mnode;
    leaves_.back()->high = low_;
    C::Keep(low_);
  }
  leaves_.push_back(mnode);
}

template <class C>
void LoadedLeaves<C>::Commit() {
  pmem::Word& first = tree_.pool.engine_area()[media::kFirstLeaf];
  LODGEKV_CRASH_POINT(medium_, "sptree.bulk_load.1");
  medium_.Store(first, CheckedWord(tree_.pool.OffsetOf(leaves_[0]->bnode)));
  medium_.FlushLine(&first);
  LODGEKV_CRASH_POINT(medium_, "sptree.bulk_load.2");
  medium_.Fence();
  LODGEKV_CRASH_POINT(medium_, "sptree.bulk_load.3");
}

}  // namespace

template <class C>
absl::StatusOr<std::unique_ptr<Engine>> SpTree<C>::BulkLoad(const EngineContext& context,
                                                            const lodgekv::BulkLoad& load) {
  return CreateLoaded(
      context, load, [&] { return std::unique_ptr<SpTree>(new SpTree(context)); },
      [&](SpTree& engine) {
        TreeState<C>& tree = engine.tree_;
        if (tree.buffers()) tree.log.TakeOwnChunks();
        LoadedLeaves<C> leaves(tree);
        return BulkLoader<C, LoadedLeaves<C>>(tree, load, tree.parameters.leaf_slots, leaves).Run();
      });
}

template class SpTree<Fixed64Codec>;
template class SpTree<BytesCodec>;

}  // namespace lodgekv::sptree
