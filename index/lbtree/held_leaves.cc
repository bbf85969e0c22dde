#include "index/lbtree/held_leaves.h"

#include <algorithm>
#include <bit>

#include "index/lbtree/fingerprints.h"

namespace lodgekv::lbtree {

// The leaf seen serves if its lock can be acquired, or is held, as of that version. If not, the key
// is sought once more.
template <class C>
GroupLeaf<C>* HeldLeaves<C>::Join(const Key& key, Seen seen) {
  const bool waits = group_.leaves.empty();
  for (Backoff backoff;;) {
    const bool fresh = seen.leaf == nullptr;
    if (fresh) seen.leaf = tree_.inner.DescendForWrite(key, &seen.snapshot);
    VersionLock& lock = tree_.locks.Of(seen.leaf);
    GroupLeaf<C>* held = nullptr;
    if (lock.TryUpgrade(seen.snapshot)) {
      held = Hold({seen.leaf, &lock, {}}, key);
    } else if (lock.Validate(seen.snapshot)) {
      held = FindHeld(lock);
      if (held != nullptr && held->locked.leaf != seen.leaf) return nullptr;
    }
    if (held != nullptr) {
      tree_.Touch(key);
      const bool taken = !group_.of_batch && tree_.key_locks.IsTaken(key.hash);
      if (taken && !tree_.medium.Canary("lbtree.group.batches_ignored")) return nullptr;
      return LeafFor(*held, key);
    }
    seen = {};
    if (!fresh) continue;
    if (!waits) return nullptr;
    backoff.Pause();
  }
}

// Null: none of the held leaves has the lock.
template <class C>
GroupLeaf<C>* HeldLeaves<C>::FindHeld(const VersionLock& lock) {
  // Neighbouring keys often come one after the other.
  for (size_t i = group_.locks.size(); i-- > 0;) {
    if (group_.locks[i] == &lock) return &group_.leaves[i];
  }
  return nullptr;
}

// Adds the leaf, whose lock has been acquired. A group that holds no other lock waits for a batch
// that has the key: then null, and the leaf is unlocked.
template <class C>
GroupLeaf<C>* HeldLeaves<C>::Hold(const LockedLeaf& locked, const Key& key) {
  const bool taken = !group_.of_batch && group_.leaves.empty() && tree_.key_locks.IsTaken(key.hash);
  if (taken && !tree_.medium.Canary("lbtree.group.batches_ignored")) {
    locked.lock->Unlock();
    tree_.key_locks.AwaitFree(key.hash);
    return nullptr;
  }
  group_.locks.push_back(locked.lock);
  GroupLeaf<C>* held = &group_.leaves.emplace_back();
  held->locked = locked;
  return held;
}

template <class C>
GroupLeaf<C>* HeldLeaves<C>::LeafFor(GroupLeaf<C>& held, const Key& key) {
  GroupLeaf<C>* leaf = &held;
  NewLeaf<C>* to = nullptr;
  for (NewLeaf<C>* at = held.right; at != nullptr && C::CompareToKey(at->low, key) <= 0;
       at = at->next) {
    to = at;
  }
  if (to != nullptr) {
    leaf = &group_.at_new_leaf;
    Begin({to->leaf, held.locked.lock, {}}, key, leaf);
    leaf->committed = 0;
    leaf->held = &held;
    leaf->new_leaf = to;
  } else if (held.right != nullptr && tree_.blocks > 1) {
    held.awaited = true;
    return nullptr;
  } else if (held.value != nullptr) {
    return nullptr;
  } else if (!held.begun() || (tree_.blocks > 1 && !held.touched())) {
    Begin(held.locked, key, &held);
  }
  leaf->locked.place = FindPlaceIn(*leaf, key);
  if (leaf->locked.place.found() && leaf->locked.place.block != leaf->block) return nullptr;
  return leaf;
}

// Chooses the block: the key's, or one with room.
template <class C>
void HeldLeaves<C>::Begin(const LockedLeaf& locked, const Key& key, GroupLeaf<C>* leaf) const {
  unsigned block = 0;
  const Place place = tree_.blocks > 1 ? search_.FindPlace(locked.leaf, key) : Place{};
  if (place.found()) {
    block = place.block;
  } else {
    while (block + 1 < tree_.blocks && HeaderOf(locked.leaf, block).slots() == tree_.usable_slots)
      ++block;
  }
  const bool alt = AltOf(locked.leaf);
  media::Word* words = HeaderWords(locked.leaf, block, alt);
  const Header header = LoadHeader(words);
  *leaf = {.locked = locked,
           .block = block,
           .header_line = HeaderLine(block, alt),
           .words = words,
           .header = header,
           .committed = header.slots()};
}

// Includes the effects of the group's earlier operations.
template <class C>
Place HeldLeaves<C>::FindPlaceIn(const GroupLeaf<C>& leaf, const Key& key) const {
  const Place place = tree_.blocks > 1 ? search_.FindPlace(leaf.locked.leaf, key) : Place{};
  if (place.found() && place.block != leaf.block) return place;
  uint32_t slots = leaf.header.slots();
  if (tree_.parameters.fingerprints) {
    slots &= MatchFingerprints(leaf.header.words, FingerprintOf(key.hash));
  }
  return search_.FindSlot(leaf.locked.leaf, leaf.block, slots, key);
}

template <class C>
void HeldLeaves<C>::LetGo() {
  size_t kept = 0;
  for (size_t i = 0; i < group_.leaves.size(); ++i) {
    const LockedLeaf locked = group_.leaves[i].locked;
    if (!group_.leaves[i].awaited) {
      locked.lock->Unlock();
      continue;
    }
    group_.locks[kept] = locked.lock;
    group_.leaves[kept++] = {.locked = locked};
  }
  group_.locks.resize(kept);
  group_.leaves.resize(kept);
  group_.new_leaves.clear();
  group_.changes = group_.fences_first = false;
}

template class HeldLeaves<Fixed64Codec>;
template class HeldLeaves<BytesCodec>;

}  // namespace lodgekv::lbtree
