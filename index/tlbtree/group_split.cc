// Splits in a group; their crash table: README.md, Group.
#include "index/pmem/crash_point.h"
#include "index/tlbtree/pair_writer.h"

namespace lodgekv::tlbtree {

// Slots for the pair of the current place: neither valid until the commit, nor after it. In a leaf
// that was just split any slot serves: a pool may have been opened with a smaller `leaf_slots`, and
// then all that are used may stay valid in it.
template <class C>
uint32_t WriteGroup<C>::FreeSlots(bool just_split) {
  uint32_t taken = state().Slots();
  if (target_ == nullptr) {
    taken |= held_->busy;
  } else if (slot_ >= 0) {
    taken &= ~(uint32_t{1} << slot_);
  }
  const uint32_t free = tree_.usable_slots() & ~taken;
  return free != 0 || !just_split ? free : ~taken & ((uint32_t{1} << Node::kSlots) - 1);
}

// kJoined: there is a free slot where the key belongs, or its value can change in its slot.
template <class C>
Joining WriteGroup<C>::MakeRoom(const Key& key) {
  free_ = FreeSlots(target_ == nullptr && held_->split_before);
  if (free_ != 0) return Joining::kJoined;
  const bool untouched = target_ == nullptr && !held_->changes();
  if (found() && untouched) return Joining::kJoined;
  const bool was_split = target_ == nullptr && held_->right != nullptr;
  if (was_split) held_->awaited = true;
  const bool splits = !was_split && !found() && state().count() >= tree_.parameters.leaf_slots;
  if (!splits) return Joining::kLater;
  const Joining split = Split(key);
  if (split != Joining::kJoined) return split;
  free_ = FreeSlots(/*just_split=*/true);
  if (free_ != 0) return split;
  held_->awaited = true;
  return Joining::kLater;
}

// Splits the leaf of the current place, and moves the place to where the key belongs.
template <class C>
Joining WriteGroup<C>::Split(const Key& key) {
  if (new_leaves_.size() == kMostLeaves) return Joining::kLater;
  const NodeState old = state();
  const LinkTo high = target_ == nullptr ? LoadLink(held_->leaf->sibling[old.alt()])
                                         : LoadLink(target_->leaf->sibling[0]);
  const typename LeafDivider<C>::Left left{node(), old,
                                           target_ == nullptr ? held_->low : target_->low, high};
  typename LeafDivider<C>::Division made;
  if (divider_.Divide(worker_, left, key, place_, &made) != Outcome::kOk) return Joining::kAlone;
  divider_.StoreRight(left, made, nullptr, 0, /*flush=*/false);
  NewLeaf& right = new_leaves_.emplace_back();
  right = {made.right, made.low, NodeState(made.right->state.LoadRelaxed()), nullptr};
  state().Truncate(made.stay);
  if (target_ == nullptr) {
    StageHeld(&right);
  } else {
    StageNew(&right);
  }
  changes_ = true;
  fences_first_ |= !tree_.medium.Canary("tlbtree.group.split_not_fenced");
  worker_.counters.Add(WorkerCounters::kLeafSplits);
  if (made.goes_right) {
    target_ = &right;
    place_ -= made.stay;
  }
  return Joining::kJoined;
}

// Of a new leaf.
template <class C>
void WriteGroup<C>::StoreState() {
  if (target_ != nullptr) tree_.medium.Store(target_->leaf->state, target_->state.word());
}

// From here on the state word commits the split as well.
template <class C>
void WriteGroup<C>::StageHeld(NewLeaf* right) {
  held_->state.FlipAlt();
  const LinkTo link = MakeLink(tree_.pool.OffsetOf(right->leaf), right->low);
  StoreLink(tree_.medium, held_->leaf->sibling[held_->state.alt()], link);
  held_->lines |= 1u << kSiblingLine;
  if (tree_.medium.Canary("tlbtree.group.reuse_at_once")) held_->busy = 0;
  held_->right = right;
}

template <class C>
void WriteGroup<C>::StageNew(NewLeaf* right) {
  StoreState();
  if (!tree_.medium.Canary("tlbtree.group.new_sibling_stays")) {
    StoreLink(tree_.medium, target_->leaf->sibling[0],
              MakeLink(tree_.pool.OffsetOf(right->leaf), right->low));
  }
  right->next = target_->next;
  target_->next = right;
}

template <class C>
void WriteGroup<C>::FlushNewLeaves() {
  if (tree_.medium.Canary("tlbtree.group.leaf_not_flushed")) return;
  for (const NewLeaf& made : new_leaves_) {
    uint32_t lines = 1u | 1u << kSiblingLine;
    for (unsigned i = 0; i < made.state.count(); ++i) {
      lines |= 1u << LineOfSlot<C>(made.state.SlotAt(i));
    }
    tree_.medium.FlushLines(made.leaf, lines);
  }
}

// Their entries are made without locks (PairWriter::AfterWrite). Before the commit: from then on
// others may merge them.
template <class C>
void WriteGroup<C>::NoteNewLeaves() {
  for (const NewLeaf& made : new_leaves_) {
    worker_.unlisted.push_back(OwnTextOfLow<C>(tree_.pool, made.low));
  }
}

template class WriteGroup<Fixed64Codec>;
template class WriteGroup<BytesCodec>;

}  // namespace lodgekv::tlbtree
