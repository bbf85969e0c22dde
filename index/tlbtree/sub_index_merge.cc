// A sub-index with a single leaf goes to the one to its left; crash table: README.md, Sub-index
// merge.
#include "index/node/epoch.h"
#include "index/pmem/crash_point.h"
#include "index/tlbtree/sub_indices.h"

namespace lodgekv::tlbtree {

namespace {

// Call before it is unlinked: the sweep may not have come to it.
template <class C>
void HoldAnchor(TreeState<C>& tree, pmem::Offset anchor, const AnchorView& view) {
  tree.HoldUnit(tree.anchors, anchor);
  if (const pmem::Offset low = RecordOfLow<C>(view.low); low != 0 && tree.pool.finding_space())
    tree.slab.Hold(low);
}

// Dead anchors that a crash left between two live ones, whose merge will skip them.
template <class C>
std::vector<pmem::Offset> DeadBetween(TreeState<C>& tree, const AnchorView& left,
                                      pmem::Offset right) {
  std::vector<pmem::Offset> dead;
  for (pmem::Offset at = left.next; at != right;) {
    const AnchorView view = AnchorView::Of(*tree.AnchorAt(at));
    HoldAnchor(tree, at, view);
    dead.push_back(at);
    at = view.next;
  }
  return dead;
}

}  // namespace

// Whether the leaf of `right` finds room for its entry in `left`, or needs none: an empty one is
// merged there.
template <class C>
bool SubIndices<C>::CanAbsorb(const AnchorPlace& left, const AnchorPlace& right) const {
  const auto entries = [&](const AnchorPlace& of) {
    if (of.view.root.height == 1) return 0u;
    return NodeState(tree_.NodeAt(of.view.root.node)->state.LoadRelaxed()).count();
  };
  if (right.view.root.dead || entries(right) != 0) return false;
  if (tree_.parameters.height > 1 && entries(left) < tree_.parameters.node_slots) return true;
  const Node* leaf = tree_.NodeAt(right.view.root.node);
  if (right.view.root.height > 1) leaf = tree_.NodeAt(NodeOf(leaf->leftmost.LoadRelaxed()));
  return NodeState(leaf->state.LoadRelaxed()).count() == 0;
}

// Both are locked.
template <class C>
void SubIndices<C>::Absorb(AnchorPlace* left, AnchorPlace* right) {
  const AnchorRoot old = right->view.root;
  AnchorRoot dead = old;
  dead.dead = true;
  if (old.height > 1) tree_.HoldUnit(tree_.nodes, old.node);
  if (!tree_.medium.Canary("tlbtree.sub_index_merge.alive")) anchors_.Change(right, {dead, {}});
  LODGEKV_CRASH_POINT(tree_.medium, "tlbtree.sub_index_merge.1");
  HoldAnchor(tree_, right->offset, right->view);
  anchors_.Change(left, {left->view.root, right->view.next});
  LODGEKV_CRASH_POINT(tree_.medium, "tlbtree.sub_index_merge.2");
  if (tree_.medium.failed()) return;
  if (old.height > 1) tree_.nodes.Free(old.node);
  tree_.top.Drop(right->offset);
  tree_.workers.Current().counters.Add(WorkerCounters::kSubIndexMerges);
}

template <class C>
bool SubIndices<C>::MergeSubIndex(const std::string& text) {
  const typename C::Key key = C::MakeKey(text);
  AnchorPlace right;
  std::string low;
  {
    const EpochGuard guard;
    if (!descent_.ToAnchor(Target<C>{&key}, &right)) return false;
    if (right.offset == tree_.first_anchor()) return false;
    low = OwnTextOfLow<C>(tree_.pool, right.view.low);
  }
  const typename C::Key low_key = C::MakeKey(low);
  AnchorPlace left;
  if (!Lock(Target<C>{&low_key, /*before=*/true}, &left)) return false;
  bool taken = false;
  AnchorPlace next;
  const bool same_lock = &LockOf(left.offset) == &LockOf(right.offset);
  if (descent_.NextLive(left.view, &next) && next.offset == right.offset &&
      (same_lock || LockOf(right.offset).TryUpgrade(next.snapshot))) {
    // Under both locks, or one that is both.
    right = next;
    taken = CanAbsorb(left, right);
    if (taken) {
      const std::vector<pmem::Offset> skipped = DeadBetween(tree_, left.view, right.offset);
      Absorb(&left, &right);
      if (!tree_.medium.failed()) {
        for (const pmem::Offset anchor : skipped) tree_.top.Drop(anchor);
      }
    }
    if (!same_lock) Unlock(right);
  }
  Unlock(left);
  return taken;
}

template <class C>
void SubIndices<C>::DropDead(const std::string& text) {
  const typename C::Key key = C::MakeKey(text);
  AnchorPlace place;
  if (!Lock(Target<C>{&key}, &place)) return;
  AnchorPlace next;
  std::vector<pmem::Offset> dead;
  for (pmem::Offset at = place.view.next; at != 0; at = next.view.next) {
    if (!descent_.ViewAnchor(at, &next) || !next.view.root.dead) break;
    dead.push_back(at);
  }
  if (!dead.empty()) {
    anchors_.Change(&place, {place.view.root, next.view.root.dead ? next.view.next : next.offset});
    LODGEKV_CRASH_POINT(tree_.medium, "tlbtree.drop_dead.1");
    for (const pmem::Offset anchor : dead) tree_.top.Drop(anchor);
  }
  Unlock(place);
}

template bool SubIndices<Fixed64Codec>::MergeSubIndex(const std::string&);
template bool SubIndices<BytesCodec>::MergeSubIndex(const std::string&);
template void SubIndices<Fixed64Codec>::DropDead(const std::string&);
template void SubIndices<BytesCodec>::DropDead(const std::string&);

}  // namespace lodgekv::tlbtree
