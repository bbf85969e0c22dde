// Staging and commit of a group; its crash table: README.md, Group.
#include <algorithm>
#include <bit>

#include "index/pmem/crash_point.h"
#include "index/tlbtree/writes.h"

namespace lodgekv::tlbtree {

template <class C>
WriteGroup<C>::WriteGroup(PairWriter<C>& writer, bool of_batch)
    : tree_(writer.state()),
      pairs_(writer),
      worker_(tree_.workers.Current()),
      divider_(tree_),
      writer_(tree_),
      of_batch_(of_batch) {}

template <class C>
bool WriteGroup<C>::Find(const Key& key, Seen seen) {
  held_ = Join(key, seen);
  if (held_ == nullptr) return false;
  target_ = nullptr;
  for (NewLeaf* at = held_->right; at != nullptr; at = at->next) {
    if (!Target<C>{&key}.Reaches(tree_.pool, at->low)) break;
    target_ = at;
  }
  if (target_ == nullptr && held_->value != nullptr) return false;
  tree_.search.FindPlace(node(), state(), key, &slot_, &place_);
  return true;
}

// The leaf seen serves if its lock can be acquired, or is held, as of that version, and it covers
// the key. If not, the key is sought once more. Null: the leaf cannot be locked without waiting, or
// shares its lock with another one that is held.
template <class C>
auto WriteGroup<C>::Join(const Key& key, Seen seen) -> Held* {
  const bool waits = leaves_.empty();
  for (Backoff backoff;;) {
    const bool fresh = seen.leaf == nullptr;
    if (fresh) seen = pairs_.Seek(key);
    damaged_ = seen.leaf == nullptr;
    if (damaged_) return nullptr;
    VersionLock& lock = tree_.locks.Of(seen.leaf);
    Held* held = nullptr;
    if (lock.TryUpgrade(seen.snapshot)) {
      if (tree_.search.Covers(seen.leaf, key)) {
        held = Hold(seen, lock, key);
      } else {
        lock.Unlock();
      }
    } else if (lock.Validate(seen.snapshot)) {
      held = FindHeld(lock);
      if (held != nullptr && held->leaf != seen.leaf) return nullptr;
      if (held != nullptr && !tree_.search.Covers(seen.leaf, key)) held = nullptr;
    }
    if (held != nullptr) {
      const bool taken = !of_batch_ && tree_.key_locks.IsTaken(key.hash);
      return taken && !tree_.medium.Canary("tlbtree.group.batches_ignored") ? nullptr : held;
    }
    seen = {};
    if (!fresh) continue;
    if (!waits) return nullptr;
    backoff.Pause();
  }
}

// Null: none of the held leaves has the lock.
template <class C>
auto WriteGroup<C>::FindHeld(const VersionLock& lock) -> Held* {
  // Neighbouring keys often come one after the other.
  for (size_t i = locks_.size(); i-- > 0;) {
    if (locks_[i] == &lock) return &leaves_[i];
  }
  return nullptr;
}

// Adds the leaf, whose lock has been acquired. A group that holds no other lock waits for a batch
// that has the key: then null, and the leaf is unlocked.
template <class C>
auto WriteGroup<C>::Hold(const Seen& seen, VersionLock& lock, const Key& key) -> Held* {
  const bool taken = !of_batch_ && leaves_.empty() && tree_.key_locks.IsTaken(key.hash);
  if (taken && !tree_.medium.Canary("tlbtree.group.batches_ignored")) {
    lock.Unlock();
    tree_.key_locks.AwaitFree(key.hash);
    return nullptr;
  }
  locks_.push_back(&lock);
  const NodeState state(seen.leaf->state.LoadRelaxed());
  leaves_.push_back(
      {.leaf = seen.leaf, .lock = &lock, .low = seen.low, .state = state, .busy = state.Slots()});
  return &leaves_.back();
}

// The pair found is invalid once the group is committed.
template <class C>
void WriteGroup<C>::Drop() {
  const uint64_t value = FoundPair().value;
  tree_.HoldRecord(value);
  worker_.replaced.push_back(value);
  state().Remove(place_);
}

template <class C>
Joining WriteGroup<C>::Remove() {
  Drop();
  StoreState();
  changes_ = true;
  worker_.counters.Add(WorkerCounters::kDeletes);
  return Joining::kJoined;
}

// There is room now.
template <class C>
void WriteGroup<C>::Put(Pair pair) {
  changes_ = true;
  if (free_ == 0) return ChangeInSlot(pair);
  const bool update = found();
  if (update) Drop();
  const auto slot = static_cast<unsigned>(std::countr_zero(free_));
  writer_.StoreSlot(node(), slot, pair);
  state().Insert(place_, slot);
  StoreState();
  const unsigned line = LineOfSlot<C>(slot);
  if (target_ == nullptr) {
    held_->lines |= line == 0 ? 0u : 1u << line;
    held_->staged |= line == 0;
  }
  fences_first_ |= line != 0 || tree_.HasRecord(pair) || tree_.medium.strict_order();
  if (update) {
    worker_.counters.Add(WorkerCounters::kUpdates);
  } else {
    LeafWriter<C>::CountInsert(worker_, line == 0);
  }
}

// The leaf's only change in this pass.
template <class C>
void WriteGroup<C>::ChangeInSlot(Pair pair) {
  held_->value = &held_->leaf->slots[slot_].value;
  held_->new_value = pair.value;
  const uint64_t old_value = held_->value->LoadRelaxed();
  tree_.HoldRecord(old_value);
  worker_.replaced.push_back(old_value);
  fences_first_ |= tree_.HasRecord(pair) && !tree_.medium.Canary("tlbtree.group.value_not_fenced");
  worker_.counters.Add(WorkerCounters::kUpdates);
}

// Releases the locks that no later pass needs.
template <class C>
void WriteGroup<C>::Commit() {
  if (changes_) {
    PersistStaged();
    CommitLeaves();
    worker_.counters.Add(WorkerCounters::kGroups);
  }
  LetGo();
  LODGEKV_CRASH_POINT(tree_.medium, "tlbtree.group.4");
  if (!tree_.medium.Canary("tlbtree.group.records_stay")) {
    for (const uint64_t value_word : worker_.replaced) tree_.RetireRecord(worker_, value_word);
  }
  worker_.replaced.clear();
}

template <class C>
void WriteGroup<C>::PersistStaged() {
  for (const Held& held : leaves_) {
    if (!held.changes()) continue;
    uint32_t lines = held.lines;
    if (held.staged && tree_.medium.strict_order()) lines |= 1;
    tree_.medium.FlushLines(held.leaf, lines);
  }
  FlushNewLeaves();
  NoteNewLeaves();
  LODGEKV_CRASH_POINT(tree_.medium, "tlbtree.group.1");
  if (fences_first_) tree_.medium.OrderStores();
  LODGEKV_CRASH_POINT(tree_.medium, "tlbtree.group.2");
}

template <class C>
void WriteGroup<C>::CommitLeaves() {
  Held* changing[kMostLeaves];
  size_t count = 0;
  for (Held& held : leaves_) {
    if (held.changes()) changing[count++] = &held;
  }
  const size_t at_once = tree_.locks.leaves().readers_wait() ? kMostPublished : kMostLeaves;
  for (size_t i = 0; i < count; i += at_once) {
    CommitTogether(std::span(changing + i, std::min(at_once, count - i)));
  }
  NoteSparse();
}

// One NAW for each leaf. Two leaves never share a lock.
template <class C>
void WriteGroup<C>::CommitTogether(std::span<Held*> leaves) {
  for (const Held* held : leaves) {
    tree_.locks.leaves().BeginCommit(*held->lock, held->commit());
    tree_.medium.StoreOrdered(held->commit(), held->commit_word());
    tree_.medium.FlushLine(&held->commit());
  }
  LODGEKV_CRASH_POINT(tree_.medium, "tlbtree.group.3");
  tree_.medium.Fence();
  for (const Held* held : leaves) tree_.locks.leaves().EndCommit(*held->lock);
}

// Leaves from which pairs were removed, for a merge after the write; by the key of any of their
// pairs. (Their bound may be an anchor's, whose record goes with the anchor.)
template <class C>
void WriteGroup<C>::NoteSparse() {
  for (const Held& held : leaves_) {
    const auto before = static_cast<unsigned>(std::popcount(held.busy));
    const unsigned after = held.state.count();
    if (after >= before || !pairs_.BecameSparse(before, after)) continue;
    const media::Slot& slot = held.leaf->slots[std::countr_zero(held.busy)];
    const Pair pair{slot.key.LoadRelaxed(), slot.value.LoadRelaxed()};
    LeafMerger<C>::Note(worker_, tree_.KeyOf(pair));
  }
}

template <class C>
void WriteGroup<C>::LetGo() {
  size_t kept = 0;
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const Held& held = leaves_[i];
    if (!held.awaited) {
      held.lock->Unlock();
      continue;
    }
    const NodeState state(held.leaf->state.LoadRelaxed());
    locks_[kept] = held.lock;
    leaves_[kept++] = {.leaf = held.leaf,
                       .lock = held.lock,
                       .low = held.low,
                       .state = state,
                       .busy = state.Slots(),
                       .split_before = held.right != nullptr};
  }
  locks_.resize(kept);
  leaves_.resize(kept);
  new_leaves_.clear();
  changes_ = fences_first_ = false;
}

template class WriteGroup<Fixed64Codec>;
template class WriteGroup<BytesCodec>;

}  // namespace lodgekv::tlbtree

namespace lodgekv {

template class GroupWrites<Fixed64Codec, tlbtree::PairWriter<Fixed64Codec>>;
template class GroupWrites<BytesCodec, tlbtree::PairWriter<BytesCodec>>;

}  // namespace lodgekv
