// Staging and commit of a group; its crash table: README.md, Group.
#include <algorithm>
#include <bit>

#include "index/pmem/crash_point.h"
#include "index/sptree/pair_writer.h"
#include "index/sptree/writes.h"

namespace lodgekv::sptree {

template <class C>
WriteGroup<C>::WriteGroup(PairWriter<C>& writer, bool of_batch)
    : tree_(writer.state()), search_(tree_), writer_(tree_), merger_(tree_), of_batch_(of_batch) {}

template <class C>
bool WriteGroup<C>::Find(const Key& key, Seen seen) {
  change_ = Join(key, seen);
  if (change_ == nullptr || change_->value != nullptr) return false;
  const media::Bnode& bnode = *change_->leaf->bnode;
  const bool held = search_.MayHold(*change_->leaf, key);
  slot_ = held ? search_.FindSlot(bnode, search_.ByTag(bnode, change_->bitmap, key), key) : -1;
  return true;
}

// The leaf seen serves if its lock can be acquired, or is held, as of that version. If not, the key
// is sought once more. Null: the key's leaf cannot be locked without waiting.
template <class C>
auto WriteGroup<C>::Join(const Key& key, Seen seen) -> LeafChange<C>* {
  const bool waits = changes_.empty();
  for (Backoff backoff;;) {
    const bool fresh = seen.leaf == nullptr;
    if (fresh) seen.leaf = tree_.top.FindForWrite(key, &seen.snapshot);
    LeafChange<C>* change = nullptr;
    if (seen.leaf->lock.TryUpgrade(seen.snapshot)) {
      change = Hold(seen.leaf, key);
    } else if (seen.leaf->lock.Validate(seen.snapshot)) {
      change = FindHeld(seen.leaf);
    }
    if (change != nullptr) {
      tree_.Touch(key);
      const bool taken = !of_batch_ && tree_.key_locks.IsTaken(key.hash);
      return taken && !tree_.medium.Canary("sptree.group.batches_ignored") ? nullptr : change;
    }
    seen = {};
    if (!fresh) continue;
    if (!waits) return nullptr;
    backoff.Pause();
  }
}

// Null: the group does not hold the leaf.
template <class C>
auto WriteGroup<C>::FindHeld(const Mnode<C>* leaf) -> LeafChange<C>* {
  // Neighbouring keys often come one after the other.
  for (size_t i = changes_.size(); i-- > 0;) {
    if (changes_[i].leaf == leaf) return &changes_[i];
  }
  return nullptr;
}

// Adds the leaf, whose lock has been acquired. A group that holds no other lock waits for a batch
// that has the key: then null, and the leaf is unlocked.
template <class C>
auto WriteGroup<C>::Hold(Mnode<C>* leaf, const Key& key) -> LeafChange<C>* {
  const bool taken = !of_batch_ && changes_.empty() && tree_.key_locks.IsTaken(key.hash);
  if (taken && !tree_.medium.Canary("sptree.group.batches_ignored")) {
    leaf->lock.Unlock();
    tree_.key_locks.AwaitFree(key.hash);
    return nullptr;
  }
  return &changes_.emplace_back(leaf);
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
Joining WriteGroup<C>::MakeRoom(const Key&) {
  if (writer_.HasRoom(*change_)) return Joining::kJoined;
  if (found()) {
    const bool staged = (change_->old >> slot_ & 1) == 0;
    return !change_->changes() || staged ? Joining::kJoined : Joining::kLater;
  }
  const bool freed = (change_->bitmap & tree_.usable_slots()) != tree_.usable_slots();
  return freed ? Joining::kLater : Joining::kAlone;
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
  LeafChange<C>* changing[kMostLeaves];
  size_t count = 0;
  bool fences_first = false;
  for (LeafChange<C>& change : changes_) {
    if (!change.changes()) continue;
    changing[count++] = &change;
    writer_.Stage(&change);
    fences_first |= LeafWriter<C>::FencesFirst(change);
  }
  if (count == 0) return;
  LODGEKV_CRASH_POINT(tree_.medium, "sptree.group.1");
  if (fences_first) tree_.medium.Fence();
  LODGEKV_CRASH_POINT(tree_.medium, "sptree.group.2");
  const size_t at_once = tree_.commits.readers_wait() ? kMostPublished : kMostLeaves;
  for (size_t i = 0; i < count; i += at_once) {
    CommitTogether(std::span(changing + i, std::min(at_once, count - i)));
  }
  tree_.workers.Current().counters.Add(WorkerCounters::kGroups);
}

// One store for each leaf.
template <class C>
void WriteGroup<C>::CommitTogether(std::span<LeafChange<C>*> changes) {
  for (const LeafChange<C>* change : changes) writer_.Commit(*change);
  LODGEKV_CRASH_POINT(tree_.medium, "sptree.group.3");
  tree_.medium.Fence();
  for (const LeafChange<C>* change : changes) writer_.Publish(*change);
}

// Unlocks the leaves. Those from which pairs have gone may have to be merged.
template <class C>
void WriteGroup<C>::LetGo() {
  Worker& worker = tree_.workers.Current();
  for (const LeafChange<C>& change : changes_) {
    const bool removed = std::popcount(change.bitmap) < std::popcount(change.old);
    if (removed) merger_.NoteIfSparse(worker, *change.leaf, C::KeyOf(change.leaf->low));
    change.leaf->lock.Unlock();
  }
  changes_.clear();
}

template class WriteGroup<Fixed64Codec>;
template class WriteGroup<BytesCodec>;

}  // namespace lodgekv::sptree

namespace lodgekv {

template class GroupWrites<Fixed64Codec, sptree::PairWriter<Fixed64Codec>>;
template class GroupWrites<BytesCodec, sptree::PairWriter<BytesCodec>>;

}  // namespace lodgekv
