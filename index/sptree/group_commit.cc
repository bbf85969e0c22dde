// Staging and commit of a group; its crash table: README.md, Group.
#include <algorithm>
#include <bit>

#include "index/pmem/crash_point.h"
#include "index/sptree/pair_writer.h"
#include "index/sptree/writes.h"

namespace lodgekv::sptree {

template <class C>
WriteGroup<C>::WriteGroup(PairWriter<C>& writer, bool of_batch)
    : tree_(writer.state()),
      search_(tree_),
      writer_(tree_),
      merger_(tree_),
      splitter_(tree_),
      buffered_(tree_),
      of_batch_(of_batch) {}

template <class C>
bool WriteGroup<C>::Find(const Key& key, Seen seen) {
  at_ = Join(key, seen);
  if (at_ == nullptr || at_->change.value != nullptr) return false;
  change_ = GoesRight(*at_, key) ? &at_->right->change : &at_->change;
  const media::Bnode& bnode = *change_->leaf->bnode;
  const bool held = search_.MayHold(*change_->leaf, key);
  slot_ = held ? search_.FindSlot(bnode, search_.ByTag(bnode, change_->bitmap, key), key) : -1;
  return true;
}

// The leaf seen serves if its lock can be acquired, or is held, as of that version. If not, the key
// is sought once more. Null: the key's leaf cannot be locked without waiting.
template <class C>
auto WriteGroup<C>::Join(const Key& key, Seen seen) -> Held* {
  const bool waits = held_.empty();
  for (Backoff backoff;;) {
    const bool fresh = seen.leaf == nullptr;
    if (fresh) seen.leaf = tree_.top.FindForWrite(key, &seen.snapshot);
    damaged_ = seen.leaf == nullptr;
    if (damaged_) return nullptr;
    Held* held = nullptr;
    if (seen.leaf->lock.TryUpgrade(seen.snapshot)) {
      held = Hold(seen.leaf, key);
    } else if (seen.leaf->lock.Validate(seen.snapshot)) {
      held = FindHeld(seen.leaf);
    }
    if (held != nullptr) {
      tree_.Touch(key);
      const bool taken = !of_batch_ && tree_.key_locks.IsTaken(key.hash);
      if (taken && !tree_.medium.Canary("sptree.group.batches_ignored")) return nullptr;
      if (held->change.leaf->buffered()) EmptyBufferOf(*held);
      return held;
    }
    seen = {};
    if (!fresh) continue;
    if (!waits) return nullptr;
    backoff.Pause();
  }
}

// What a group writes goes to the leaf, whose buffer must be empty.
template <class C>
void WriteGroup<C>::EmptyBufferOf(Held& held) {
  Mnode<C>* leaf = held.change.leaf;
  buffered_.EmptyBuffer(tree_.workers.Current(), leaf);
  held.change = LeafChange<C>(leaf);
}

// Null: the group does not hold the leaf.
template <class C>
auto WriteGroup<C>::FindHeld(const Mnode<C>* leaf) -> Held* {
  // Neighbouring keys often come one after the other.
  for (size_t i = held_.size(); i-- > 0;) {
    if (held_[i].change.leaf == leaf) return &held_[i];
  }
  return nullptr;
}

// Adds the leaf, whose lock has been acquired. A group that holds no other lock waits for a batch
// that has the key: then null, and the leaf is unlocked.
template <class C>
auto WriteGroup<C>::Hold(Mnode<C>* leaf, const Key& key) -> Held* {
  const bool taken = !of_batch_ && held_.empty() && tree_.key_locks.IsTaken(key.hash);
  if (taken && !tree_.medium.Canary("sptree.group.batches_ignored")) {
    leaf->lock.Unlock();
    tree_.key_locks.AwaitFree(key.hash);
    return nullptr;
  }
  Held& held = held_.emplace_back();
  held.change = LeafChange<C>(leaf);
  return &held;
}

template <class C>
Joining WriteGroup<C>::Remove() {
  Worker& worker = tree_.workers.Current();
  worker.replaced.push_back(FoundPair().value);
  LeafWriter<C>::Drop(change_, static_cast<unsigned>(slot_));
  if (tree_.medium.Canary("sptree.group.reuse_at_once")) change_->old &= change_->bitmap;
  worker.counters.Add(WorkerCounters::kDeletes);
  return Joining::kJoined;
}

// kJoined: there is a free slot, or the pair's value can change in its slot.
template <class C>
Joining WriteGroup<C>::MakeRoom(const Key& key) {
  const bool staged = found() && (change_->old >> slot_ & 1) == 0;
  if (staged || writer_.HasRoom(*change_)) return Joining::kJoined;
  if (found())
    return change_->changes() || at_->right != nullptr ? Joining::kLater : Joining::kJoined;
  if (change_->unlinked) return Joining::kLater;
  const bool freed = (change_->bitmap & tree_.usable_slots()) != tree_.usable_slots();
  if (at_->right == nullptr && !freed) return Split(key);
  at_->awaited |= at_->right != nullptr;
  return Joining::kLater;
}

// There is room now.
template <class C>
void WriteGroup<C>::Put(Pair pair) {
  Worker& worker = tree_.workers.Current();
  if (found()) {
    worker.replaced.push_back(FoundPair().value);
    worker.counters.Add(WorkerCounters::kUpdates);
    if (ChangeInSlot(pair)) return;
    LeafWriter<C>::Drop(change_, static_cast<unsigned>(slot_));
  } else {
    worker.counters.Add(WorkerCounters::kInserts);
  }
  writer_.AddPair(change_, pair);
}

// True: the value has a slot that does not count yet, or no other slot is free.
template <class C>
bool WriteGroup<C>::ChangeInSlot(Pair pair) {
  media::Slot& slot = change_->leaf->bnode->slots[slot_];
  const bool staged = (change_->old >> slot_ & 1) == 0;
  if (staged) {
    tree_.medium.Store(slot.value, pair.value);
    return true;
  }
  if (writer_.HasRoom(*change_)) return false;
  change_->value = &slot.value;
  change_->new_value = pair.value;
  change_->fences =
      TreeState<C>::HasRecord(pair) && !tree_.medium.Canary("sptree.group.value_not_fenced");
  return true;
}

template <class C>
void WriteGroup<C>::Commit() {
  Worker& worker = tree_.workers.Current();
  PersistChanges();
  LetGo();
  LODGEKV_CRASH_POINT(tree_.medium, "sptree.group.4");
  if (!tree_.medium.Canary("sptree.group.records_stay")) {
    for (const uint64_t value_word : worker.replaced) tree_.RetireRecord(worker, value_word);
  }
  worker.replaced.clear();
}

template <class C>
void WriteGroup<C>::PersistChanges() {
  Held* changing[kMostLeaves];
  size_t count = 0;
  bool fences_first = false;
  for (Held& held : held_) {
    if (!held.changes()) continue;
    changing[count++] = &held;
    writer_.Stage(&held.change);
    fences_first |= LeafWriter<C>::FencesFirst(held.change);
  }
  for (SplitLeaf& split : split_leaves_) {
    if (!tree_.medium.Canary("sptree.group_split.leaf_not_flushed")) writer_.Stage(&split.change);
    fences_first = true;
  }
  if (count == 0) return;
  LODGEKV_CRASH_POINT(tree_.medium, "sptree.group.1");
  if (fences_first) tree_.medium.OrderStores();
  LODGEKV_CRASH_POINT(tree_.medium, "sptree.group.2");
  const size_t at_once = tree_.commits.readers_wait() ? kMostPublished : kMostLeaves;
  for (size_t i = 0; i < count; i += at_once) {
    CommitTogether(std::span(changing + i, std::min(at_once, count - i)));
  }
  tree_.workers.Current().counters.Add(WorkerCounters::kGroups);
}

// One store for each leaf, and before it the link to the one split off it.
template <class C>
void WriteGroup<C>::CommitTogether(std::span<Held*> leaves) {
  LinkSplitLeaves(leaves);
  for (const Held* held : leaves) writer_.Commit(held->change);
  LODGEKV_CRASH_POINT(tree_.medium, "sptree.group.3");
  tree_.medium.Fence();
  for (Held* held : leaves) Publish(*held);
}

// Unlocks the leaves, but those that the next pass needs. Those from which pairs have gone may have
// to be merged.
template <class C>
void WriteGroup<C>::LetGo() {
  Worker& worker = tree_.workers.Current();
  size_t kept = 0;
  for (const Held& held : held_) {
    Mnode<C>* leaf = held.change.leaf;
    if (held.awaited) {
      held_[kept++] = {.change = LeafChange<C>(leaf)};
      continue;
    }
    const bool removed = std::popcount(held.change.bitmap) < std::popcount(held.change.old);
    if (removed) merger_.NoteIfSparse(worker, *leaf, C::KeyOf(leaf->low));
    leaf->lock.Unlock();
  }
  held_.resize(kept);
  split_leaves_.clear();
}

template class WriteGroup<Fixed64Codec>;
template class WriteGroup<BytesCodec>;

}  // namespace lodgekv::sptree

namespace lodgekv {

template class GroupWrites<Fixed64Codec, sptree::PairWriter<Fixed64Codec>>;
template class GroupWrites<BytesCodec, sptree::PairWriter<BytesCodec>>;

}  // namespace lodgekv
