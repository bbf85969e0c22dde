// The log-free merge of leaves (TLBtree III (4)); crash table: README.md, Merge.
#include <bit>

#include "index/node/epoch.h"
#include "index/pmem/crash_point.h"
#include "index/tlbtree/leaf_merger.h"

namespace lodgekv::tlbtree {

// The anchor is locked. The key's leaf and the one to its left or, for the first one, to its right.
template <class C>
bool LeafMerger<C>::Find(const AnchorPlace& place, const Target<C>& target, Two* two) const {
  const auto missing = sub_indices_.FindMissing(place, target, 1, &two->left);
  if (!missing.empty()) {
    two->right = tree_.NodeAt(missing[0].node());
    two->entry = kNotListed;
    return true;
  }
  if (place.view.root.height == 1) return false;
  Node* root = tree_.NodeAt(place.view.root.node);
  if (tree_.touch.active() && !check_.TouchRoot(root)) return false;
  const NodeState state(root->state.LoadRelaxed());
  if (state.count() == 0) return false;
  const EpochGuard guard;
  const unsigned at = tree_.search.template ChildPlace<SearchByPointer>(root, state, target);
  two->entry = at == 0 ? 0 : static_cast<int>(at) - 1;
  const auto child = [&](int entry) {
    const uint64_t word =
        entry < 0 ? root->leftmost.LoadRelaxed()
                  : root->children[state.SlotAt(static_cast<unsigned>(entry))].node.LoadRelaxed();
    return tree_.NodeAt(NodeOf(word));
  };
  two->left = child(two->entry - 1);
  two->right = child(two->entry);
  return true;
}

// Only tries: writers that hold a leaf wait for nobody. False: nothing is locked.
template <class C>
bool LeafMerger<C>::LockBoth(Two* two) const {
  VersionLock& left = tree_.locks.Of(two->left);
  VersionLock& right = tree_.locks.Of(two->right);
  two->same_lock = &left == &right;
  if (!left.TryLock()) return false;
  if (two->same_lock || right.TryLock()) return true;
  left.Unlock();
  return false;
}

template <class C>
bool LeafMerger<C>::Fits(const Two& two) const {
  if (tree_.touch.active() && !(check_.TouchLeaf(two.left) && check_.TouchLeaf(two.right))) {
    return false;
  }
  const NodeState left(two.left->state.LoadRelaxed());
  const NodeState right(two.right->state.LoadRelaxed());
  const LinkTo link = LoadLink(two.left->sibling[left.alt()]);
  if (link.node() != tree_.pool.OffsetOf(two.right)) return false;  // one between them is unlisted
  const unsigned both = left.count() + right.count();
  const unsigned most = tree_.parameters.leaf_slots;
  if (left.count() == 0 || right.count() == 0) return both <= most;
  const bool sparse = std::min(left.count(), right.count()) <= most / 4;
  return sparse && both <= most * 3 / 4;
}

// Stores the right leaf's pairs in free slots of the left one. Returns the state with them.
template <class C>
NodeState LeafMerger<C>::StagePairs(const Two& two) {
  NodeState state(two.left->state.LoadRelaxed());
  const NodeState from(two.right->state.LoadRelaxed());
  uint32_t free = tree_.usable_slots() & ~state.Slots();
  uint32_t lines = 1u << kSiblingLine;
  for (unsigned i = 0; i < from.count(); ++i, free &= free - 1) {
    const media::Slot& moved = two.right->slots[from.SlotAt(i)];
    const Pair pair{moved.key.LoadRelaxed(), moved.value.LoadRelaxed()};
    const auto slot = static_cast<unsigned>(std::countr_zero(free));
    writer_.StoreSlot(two.left, slot, pair);
    state.Insert(state.count(), slot);
    lines |= 1u << LineOfSlot<C>(slot);
    tree_.HoldRecord(pair.value);
  }
  state.FlipAlt();
  StoreLink(tree_.medium, two.left->sibling[state.alt()], LoadLink(two.right->sibling[from.alt()]));
  if (tree_.medium.Canary("tlbtree.merge.pairs_not_flushed")) lines = 1u << kSiblingLine;
  tree_.medium.FlushLines(two.left, lines);
  return state;
}

template <class C>
void LeafMerger<C>::Join(Worker& worker, const AnchorPlace& place, const Two& two) {
  pmem::Medium& medium = tree_.medium;
  const bool late = medium.Canary("tlbtree.merge.entry_stays");
  const pmem::Offset right = tree_.pool.OffsetOf(two.right);
  const LinkTo link = two.link;
  if (!late && two.entry != kNotListed)
    sub_indices_.RemoveEntry(place, static_cast<unsigned>(two.entry));
  tree_.HoldUnit(tree_.nodes, right);
  if (RecordOfLow<C>(link.low) != 0 && tree_.pool.finding_space()) {
    tree_.slab.Hold(RecordOfLow<C>(link.low));
  }
  const NodeState state = StagePairs(two);
  LODGEKV_CRASH_POINT(medium, "tlbtree.merge.1");
  medium.OrderStores();
  VersionLock& left_lock = tree_.locks.Of(two.left);
  tree_.locks.leaves().BeginCommit(left_lock, two.left->state);
  medium.StoreOrdered(two.left->state, state.word());
  medium.FlushLine(&two.left->state);
  LODGEKV_CRASH_POINT(medium, "tlbtree.merge.2");
  medium.Fence();
  tree_.locks.leaves().BeginPublish(left_lock);
  if (!two.same_lock) {
    VersionLock& right_lock = tree_.locks.Of(two.right);
    right_lock.BeginPublish();
    right_lock.EndPublish();
  }
  tree_.locks.leaves().EndPublish(left_lock);
  LODGEKV_CRASH_POINT(medium, "tlbtree.merge.3");
  worker.counters.Add(WorkerCounters::kLeafMerges);
  if (medium.failed() || medium.Canary("tlbtree.merge.leaf_stays")) return;
  tree_.nodes.Free(right);
  tree_.RetireSpace(worker, RecordOfLow<C>(link.low));
}

template <class C>
bool LeafMerger<C>::MergeInSubIndex(const std::string& text) {
  const typename C::Key key = C::MakeKey(text);
  const Target<C> target{&key};
  AnchorPlace place;
  if (!sub_indices_.Lock(target, &place)) return false;
  Worker& worker = tree_.workers.Current();
  Two two{};
  bool single = place.view.root.height == 1 ||
                NodeState(tree_.NodeAt(place.view.root.node)->state.LoadRelaxed()).count() == 0;
  const bool found = Find(place, target, &two);
  const bool locked = found && LockBoth(&two);
  if (found && !locked) Note(worker, text);
  if (locked) {
    if (Fits(two)) {
      const NodeState left(two.left->state.LoadRelaxed());
      two.link = LoadLink(two.left->sibling[left.alt()]);
      Join(worker, place, two);
      single = NodeState(tree_.NodeAt(place.view.root.node)->state.LoadRelaxed()).count() == 0;
    }
    if (!two.same_lock) tree_.locks.Of(two.right).Unlock();
    tree_.locks.Of(two.left).Unlock();
  }
  sub_indices_.Unlock(place);
  return single;
}

template <class C>
void LeafMerger<C>::Merge(const std::string& text) {
  if (!MergeInSubIndex(text) || !sub_indices_.MergeSubIndex(text)) return;
  // Its leaf has neighbours now, and no entry.
  (void)MergeInSubIndex(text);
  tree_.workers.Current().unlisted.push_back(text);
}

template class LeafMerger<Fixed64Codec>;
template class LeafMerger<BytesCodec>;

}  // namespace lodgekv::tlbtree
