// Staging and commit of a group; its crash table: README.md, Group.
#include <algorithm>
#include <bit>

#include "index/pmem/crash_point.h"
#include "index/sstree/pair_writer.h"
#include "index/sstree/writes.h"

namespace lodgekv::sstree {

template <class C>
WriteGroup<C>::WriteGroup(PairWriter<C>& writer, bool of_batch)
    : tree_(writer.state()), writer_(tree_), splitter_(tree_), of_batch_(of_batch) {}

template <class C>
bool WriteGroup<C>::Find(const Key& key, Seen seen) {
  Held* held = Join(key, seen);
  if (held == nullptr || held->change.value != nullptr) return false;
  held_ = held;
  change_ = &held->change;
  target_ = SplitLeafFor(*held, key);
  appends_ = false;
  if (target_ == nullptr) {
    place_ = writer_.FindPlace(*change_, key);
    return true;
  }
  place_ = {};
  return !splitter_.HoldsKey(target_->right, key);
}

// The leaf seen serves if its lock can be acquired, or is held, as of that version. If not, the key
// is sought once more. Null: the key's leaf cannot be locked without waiting.
template <class C>
auto WriteGroup<C>::Join(const Key& key, Seen seen) -> Held* {
  const bool waits = leaves_.empty();
  for (Backoff backoff;;) {
    const bool fresh = seen.leaf == nullptr;
    if (fresh) seen.leaf = tree_.inner.DescendForWrite(key, &seen.snapshot);
    Held* held = nullptr;
    if (seen.leaf->lock.TryUpgrade(seen.snapshot)) {
      held = Hold(seen.leaf, key);
    } else if (seen.leaf->lock.Validate(seen.snapshot)) {
      held = FindHeld(seen.leaf);
    }
    if (held != nullptr) {
      tree_.Touch(key);
      const bool taken = !of_batch_ && tree_.key_locks.IsTaken(key.hash);
      return taken && !tree_.medium.Canary("sstree.group.batches_ignored") ? nullptr : held;
    }
    seen = {};
    if (!fresh) continue;
    if (!waits) return nullptr;
    backoff.Pause();
  }
}

// Null: the group does not hold the leaf.
template <class C>
auto WriteGroup<C>::FindHeld(const Leaf* leaf) -> Held* {
  // Neighbouring keys often come one after the other.
  for (size_t i = leaves_.size(); i-- > 0;) {
    if (leaves_[i].leaf == leaf) return &leaves_[i];
  }
  return nullptr;
}

// Adds the leaf, whose lock has been acquired. A group that holds no other lock waits for a batch
// that has the key: then null, and the leaf is unlocked.
template <class C>
auto WriteGroup<C>::Hold(Leaf* leaf, const Key& key) -> Held* {
  const bool taken = !of_batch_ && leaves_.empty() && tree_.key_locks.IsTaken(key.hash);
  if (taken && !tree_.medium.Canary("sstree.group.batches_ignored")) {
    leaf->lock.Unlock();
    tree_.key_locks.AwaitFree(key.hash);
    return nullptr;
  }
  tree_.Touch(key);
  Held& held = leaves_.emplace_back();
  held.leaf = leaf;
  writer_.Begin(leaf, &held.change);
  return &held;
}

template <class C>
Joining WriteGroup<C>::Remove() {
  // The last pair goes with its leaf.
  if (std::popcount(change_->valid) == 1) return Joining::kAlone;
  Worker& worker = tree_.workers.Current();
  worker.replaced.push_back(place_.pair().value);
  writer_.Drop(change_, static_cast<unsigned>(place_.bit));
  if (tree_.medium.Canary("sstree.group.reuse_at_once")) change_->old &= change_->valid;
  changes_ = true;
  worker.counters.Add(WorkerCounters::kDeletes);
  return Joining::kJoined;
}

// kJoined: there is a free slot, or the pair's value can change in its slot.
template <class C>
Joining WriteGroup<C>::MakeRoom(const Key& key) {
  using Room = typename LeafWriter<C>::Room;
  if (target_ != nullptr) return RoomInSplitLeaf(key);
  const Room room = writer_.RoomIn(*change_);
  if (room == Room::kFree) return Joining::kJoined;
  if (place_.found()) {
    const bool untouched = !change_->changes() && !change_->fresh;
    const bool staged = (change_->old >> place_.bit & 1) == 0;
    return untouched || staged ? Joining::kJoined : Await();
  }
  if (room == Room::kLater) return Await();
  if (room == Room::kNone) return Split(key);
  return writer_.ReplaceHead(tree_.workers.Current(), change_) ? Joining::kJoined : Joining::kAlone;
}

// There is room now.
template <class C>
void WriteGroup<C>::Put(Pair pair) {
  Worker& worker = tree_.workers.Current();
  changes_ = true;
  if (appends_) Append(pair);
  if (target_ != nullptr) {
    worker.counters.Add(WorkerCounters::kInserts);
    return splitter_.AddToNew(&target_->right, pair, FingerprintOf(tree_.codec.HashOf(pair)));
  }
  if (place_.found()) {
    worker.replaced.push_back(place_.pair().value);
    worker.counters.Add(WorkerCounters::kUpdates);
    if (PutInPlace(*change_, pair)) return;
    writer_.Drop(change_, static_cast<unsigned>(place_.bit));
    const bool to_head = change_->FreeIn(0, tree_.usable_slots()) != 0;
    if (to_head && !place_.in_head()) worker.counters.Add(WorkerCounters::kMovedItems);
  } else {
    worker.counters.Add(WorkerCounters::kInserts);
  }
  // An update moves nothing: until the commit each entry that moves has two slots.
  const Moving moving = place_.found() ? Moving::kNone : Moving::kInLine;
  writer_.AddPair(worker, change_, pair, tree_.codec.HashOf(pair), moving);
}

// Whether a pair that is there gets another slot: one of the head, or, if the leaf has a commit by
// now, any. Otherwise its value changes in its slot, and nothing else in the leaf.
template <class C>
bool WriteGroup<C>::MovesAtUpdate(const LeafChange& change) const {
  if (change.changes() || change.fresh) return writer_.RoomIn(change) == LeafWriter<C>::Room::kFree;
  return change.FreeIn(0, tree_.usable_slots()) != 0 && tree_.parameters.item_movement;
}

// True: the value has a slot that is not valid yet, or changes in its slot.
template <class C>
bool WriteGroup<C>::PutInPlace(LeafChange& change, Pair pair) {
  const bool staged = (change.old >> place_.bit & 1) == 0;
  if (staged) {
    tree_.medium.Store(place_.slot->value, pair.value);
    change.fences |= tree_.HasRecord(pair);
    return true;
  }
  if (MovesAtUpdate(change)) return false;
  change.value = &place_.slot->value;
  change.new_value = pair.value;
  change.fences = tree_.HasRecord(pair) && !tree_.medium.Canary("sstree.group.value_not_fenced");
  return true;
}

template <class C>
void WriteGroup<C>::Commit() {
  Worker& worker = tree_.workers.Current();
  if (changes_) {
    Persist();
    worker.counters.Add(WorkerCounters::kGroups);
  }
  FreeUnused();
  KeepAwaited();
  changes_ = fences_first_ = false;
  LODGEKV_CRASH_POINT(tree_.medium, "sstree.group.4");
  if (!tree_.medium.Canary("sstree.group.records_stay")) {
    for (const uint64_t value_word : worker.replaced) tree_.RetireRecord(worker, value_word);
  }
  worker.replaced.clear();
}

// Unlocks the other leaves. A new head may have been taken in vain: there was no space for the
// pair's record.
template <class C>
void WriteGroup<C>::KeepAwaited() {
  size_t kept = 0;
  for (Held& held : leaves_) {
    if (held.change.fresh && !held.change.changes()) {
      tree_.subnodes.Free(tree_.pool.OffsetOf(held.change.head));
    }
    Leaf* leaf = held.leaf;
    if (!held.awaited) {
      leaf->lock.Unlock();
      continue;
    }
    Held& next = leaves_[kept++];
    next = {.leaf = leaf, .change = {}};
    writer_.Begin(leaf, &next.change);
  }
  leaves_.resize(kept);
}

template <class C>
void WriteGroup<C>::Persist() {
  Held* changing[kMostLeaves];
  size_t count = 0;
  for (Held& held : leaves_) {
    if (!held.change.changes() && held.first == nullptr) continue;
    changing[count++] = &held;
    if (!held.change.changes()) continue;
    writer_.Stage(&held.change);
    fences_first_ |= writer_.FencesFirst(held.change);
  }
  if (!tree_.medium.Canary("sstree.group_split.leaf_not_flushed")) {
    for (SplitLeaf& split : split_leaves_) splitter_.FlushNew(&split.right);
  }
  fences_first_ |= !split_leaves_.empty();
  LODGEKV_CRASH_POINT(tree_.medium, "sstree.group.1");
  if (fences_first_) tree_.medium.OrderStores();
  LODGEKV_CRASH_POINT(tree_.medium, "sstree.group.2");
  if (!split_leaves_.empty()) CommitSplitLeaves();
  const size_t at_once = tree_.commits.readers_wait() ? kMostPublished : kMostLeaves;
  for (size_t i = 0; i < count; i += at_once) {
    CommitTogether(std::span(changing + i, std::min(at_once, count - i)));
  }
}

// One store for each leaf.
template <class C>
void WriteGroup<C>::CommitTogether(std::span<Held*> leaves) {
  for (Held* held : leaves) {
    if (held->change.changes()) writer_.Commit(&held->change);
  }
  LODGEKV_CRASH_POINT(tree_.medium, "sstree.group.3");
  tree_.FenceAndFree(tree_.workers.Current());
  for (Held* held : leaves) {
    if (held->first == nullptr) {
      writer_.Publish(tree_.workers.Current(), &held->change);
    } else {
      PublishSplitLeaves(*held);
    }
  }
}

template class WriteGroup<Fixed64Codec>;
template class WriteGroup<BytesCodec>;

}  // namespace lodgekv::sstree

namespace lodgekv {

template class GroupWrites<Fixed64Codec, sstree::PairWriter<Fixed64Codec>>;
template class GroupWrites<BytesCodec, sstree::PairWriter<BytesCodec>>;

}  // namespace lodgekv
