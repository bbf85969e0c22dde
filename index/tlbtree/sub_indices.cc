// Entries above leaves; crash table: README.md, Entry.
#include "index/tlbtree/sub_indices.h"

#include <bit>

#include "index/node/epoch.h"
#include "index/pmem/crash_point.h"

namespace lodgekv::tlbtree {

template <class C>
bool SubIndices<C>::Lock(const Target<C>& target, AnchorPlace* place) const {
  for (Backoff backoff;; backoff.Pause()) {
    {
      const EpochGuard guard;
      if (!descent_.ToAnchor(target, place)) return false;
    }
    if (LockOf(place->offset).TryUpgrade(place->snapshot)) return true;
  }
}

template <class C>
bool SubIndices<C>::NextMissing(const AnchorPlace& place, const Target<C>& target, Node** left,
                                LinkTo* missing) const {
  const EpochGuard guard;
  Node* leaf = tree_.NodeAt(place.view.root.node);
  if (place.view.root.height > 1) {
    if (tree_.touch.active() && !check_.TouchRoot(leaf)) return false;
    leaf = tree_.NodeAt(
        tree_.search.template ChildFor<SearchByPointer>(leaf, place.view.low, target).node());
  }
  // A listed leaf stays while the anchor is locked.
  *left = leaf;
  const VersionLock& lock = tree_.locks.Of(leaf);
  for (;;) {
    const uint64_t snapshot = lock.ReadBegin();
    if (tree_.touch.active() && !check_.TouchLeaf(leaf)) {
      if (lock.Validate(snapshot)) return false;
      continue;
    }
    const OptimisticSection section;
    *missing = tree_.locks.ViewOf(leaf).sibling();
    if (lock.Validate(snapshot)) break;
  }
  return missing->node() != 0 && target.Reaches(tree_.pool, missing->low);
}

template <class C>
void SubIndices<C>::List(const std::string& text) {
  const typename C::Key key = C::MakeKey(text);
  const Target<C> target{&key};
  Worker& worker = tree_.workers.Current();
  AnchorPlace place;
  for (bool more = true; more && Lock(target, &place); Unlock(place)) {
    LinkTo missing;
    Node* left;
    more = NextMissing(place, target, &left, &missing) && Insert(&place, target, missing);
    if (more) worker.counters.Add(WorkerCounters::kHelped);
  }
}

// Under the lock. False: the pool is full.
template <class C>
bool SubIndices<C>::Insert(AnchorPlace* place, const Target<C>& target, const LinkTo& link) {
  if (tree_.parameters.height == 1 && place->view.root.height == 1) {
    Children children;
    children.links[children.count++] = {place->view.low, place->view.root.node};
    children.links[children.count++] = link;
    return SplitLeaves(place, children, 1);
  }
  if (place->view.root.height == 1) return Grow(place, link);
  const Node* root = tree_.NodeAt(place->view.root.node);
  const NodeState state(root->state.LoadRelaxed());
  unsigned at;
  {
    const EpochGuard guard;
    at = tree_.search.template ChildPlace<SearchByPointer>(root, state, target);
  }
  if (state.count() >= tree_.parameters.node_slots) return Split(place, at, link);
  InsertEntry(*place, at, link);
  return true;
}

template <class C>
void SubIndices<C>::InsertEntry(const AnchorPlace& place, unsigned at, const LinkTo& link) {
  pmem::Medium& medium = tree_.medium;
  Node* root = tree_.NodeAt(place.view.root.node);
  NodeState state(root->state.LoadRelaxed());
  const uint32_t usable = (uint32_t{1} << tree_.parameters.node_slots) - 1;
  const auto slot = static_cast<unsigned>(std::countr_zero(usable & ~state.Slots()));
  media::Link<C>& child = root->children[slot];
  state.Insert(at, slot);
  const bool late = medium.Canary("tlbtree.entry.state_first");
  if (late) medium.Store(root->state, state.word());
  StoreLink(medium, child, link);
  const bool beside = Node::kHeaderBytes + (slot + 1) * sizeof(child) <= pmem::kLineBytes;
  if (!beside || medium.strict_order()) medium.Flush(&child, sizeof(child));
  LODGEKV_CRASH_POINT(medium, "tlbtree.entry.1");
  if (!beside || medium.strict_order()) medium.Fence();
  medium.Store(root->state, state.word());
  medium.FlushLine(&root->state);
  LODGEKV_CRASH_POINT(medium, "tlbtree.entry.2");
  medium.Fence();
  Publish(place);
}

template <class C>
void SubIndices<C>::RemoveEntry(const AnchorPlace& place, unsigned at) {
  pmem::Medium& medium = tree_.medium;
  Node* root = tree_.NodeAt(place.view.root.node);
  NodeState state(root->state.LoadRelaxed());
  state.Remove(at);
  medium.Store(root->state, state.word());
  medium.FlushLine(&root->state);
  LODGEKV_CRASH_POINT(medium, "tlbtree.entry.3");
  Publish(place);
}

// Readers may have seen the entry, or that it is gone, before: it is a hint. From here on nobody
// goes by what they saw before.
template <class C>
void SubIndices<C>::Publish(const AnchorPlace& place) {
  VersionLock& lock = LockOf(place.offset);
  lock.BeginPublish();
  lock.EndPublish();
}

// The one leaf of a sub-index gets a neighbour, and both a root.
template <class C>
bool SubIndices<C>::Grow(AnchorPlace* place, const LinkTo& link) {
  const LinkTo links[] = {{place->view.low, place->view.root.node}, link};
  const pmem::Offset root = MakeRoot(tree_, links, 2);
  if (root == 0) return false;
  LODGEKV_CRASH_POINT(tree_.medium, "tlbtree.grow.1");
  tree_.medium.Fence();
  AnchorRoot grown = place->view.root;
  grown.node = root;
  grown.height = 2;
  anchors_.Commit(place, grown);
  LODGEKV_CRASH_POINT(tree_.medium, "tlbtree.grow.2");
  return true;
}

template class SubIndices<Fixed64Codec>;
template class SubIndices<BytesCodec>;

}  // namespace lodgekv::tlbtree
