// An overgrown sub-index splits in two (TLBtree III, Fig. 3); crash table: README.md, Sub-index
// split.
#include "index/node/epoch.h"
#include "index/pmem/crash_point.h"
#include "index/tlbtree/sub_indices.h"

namespace lodgekv::tlbtree {

// Behind a full root, one of whose halves the link belongs to. A sub-index that gets a leaf to the
// right of all its own keeps those: so keys that ascend leave full sub-indices.
template <class C>
bool SubIndices<C>::Split(AnchorPlace* place, unsigned at, const LinkTo& link) {
  const Node* root = tree_.NodeAt(place->view.root.node);
  const NodeState state(root->state.LoadRelaxed());
  Children children;
  children.links[children.count++] = {place->view.low, root->leftmost.LoadRelaxed()};
  for (unsigned i = 0; i < state.count(); ++i) {
    if (i == at) children.links[children.count++] = link;
    children.links[children.count++] = LoadLink(root->children[state.SlotAt(i)]);
  }
  const bool last = at == state.count();
  if (last) children.links[children.count++] = link;
  return SplitLeaves(place, children, last ? children.count - 1 : children.count / 2);
}

// Flushed, not fenced. 0: the pool is full.
template <class C>
pmem::Offset SubIndices<C>::NewAnchor(const AnchorPlace& left, const LinkTo& first,
                                      pmem::Offset root, unsigned height) {
  const pmem::Offset offset = tree_.NewUnit(tree_.anchors, pmem::ReservePolicy::kKeep);
  if (offset == 0) return 0;
  std::string text;
  {
    const EpochGuard guard;
    text = OwnTextOfLow<C>(tree_.pool, first.low);
  }
  Low low;
  if (!MakeLow(tree_, text, pmem::ReservePolicy::kKeep, &low)) {
    tree_.anchors.Free(offset);
    return 0;
  }
  StoreAnchor(tree_, offset, {.node = root, .height = height}, left.view.next, low);
  if (!tree_.medium.Canary("tlbtree.sub_index.anchor_not_flushed")) {
    tree_.medium.FlushLine(tree_.AnchorAt(offset));
  }
  return offset;
}

// The first `stay` leaves stay.
template <class C>
bool SubIndices<C>::SplitLeaves(AnchorPlace* place, const Children& children, unsigned stay) {
  const AnchorRoot old = place->view.root;
  const LinkTo* right = children.links + stay;
  const unsigned moved = children.count - stay;
  const bool rebuilt = old.height > 1 && stay + 1 < children.count;
  const pmem::Offset left_root = rebuilt ? MakeRoot(tree_, children.links, stay) : old.node;
  const pmem::Offset right_root = left_root == 0 ? 0
                                  : moved > 1    ? MakeRoot(tree_, right, moved)
                                                 : right[0].node();
  const pmem::Offset anchor =
      right_root == 0 ? 0 : NewAnchor(*place, right[0], right_root, moved > 1 ? 2 : 1);
  if (anchor == 0) {
    if (rebuilt && left_root != 0) tree_.nodes.Free(left_root);
    if (moved > 1 && right_root != 0) tree_.nodes.Free(right_root);
    return false;
  }
  AnchorRoot root = old;
  root.node = left_root;
  if (rebuilt) tree_.HoldUnit(tree_.nodes, old.node);
  anchors_.Relink(place, anchor, root);
  LODGEKV_CRASH_POINT(tree_.medium, "tlbtree.sub_index_split.1");
  tree_.top.Add(anchor);
  if (rebuilt && !tree_.medium.failed() && !tree_.medium.Canary("tlbtree.sub_index.root_stays")) {
    tree_.nodes.Free(old.node);
  }
  tree_.workers.Current().counters.Add(WorkerCounters::kSubIndexSplits);
  return true;
}

template bool SubIndices<Fixed64Codec>::Split(AnchorPlace*, unsigned, const LinkTo&);
template bool SubIndices<BytesCodec>::Split(AnchorPlace*, unsigned, const LinkTo&);
template bool SubIndices<Fixed64Codec>::SplitLeaves(AnchorPlace*, const Children&, unsigned);
template bool SubIndices<BytesCodec>::SplitLeaves(AnchorPlace*, const Children&, unsigned);

}  // namespace lodgekv::tlbtree
