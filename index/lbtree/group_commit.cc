// Group commit: operations share two fences, each with an outcome of its own. What they change in a
// leaf is gathered in a header in DRAM, and counts by one store.
//
//  step                                          after a crash           recovery
//  1  records; pairs, moved pairs and the        the old words: slots    marks free the records
//     fingerprints of word 1 in slots that do    that do not count hold
//     not count, in all leaves; leaves that are  anything
//     split off (group_split.cc); one flush of
//     each line; fence
//  2  of each leaf word 0 of its header, or the  of each leaf the old    nothing
//     value word of one slot; fence              word or the new
//
// Step 1 needs no fence where every pair lies in its header's line, without a record, and words of
// a line do not tear; nor where pairs only go. A put of a key that is there takes another slot: so
// a leaf has one commit. Where no slot is free its value changes in its slot, and nothing else in
// the leaf.
//
// A group is written in passes of these two steps. What cannot join a pass is passed over, and with
// it every later operation on its key: a busy leaf, a lock that covers two leaves, another block
// than the one that changes, a slot that counts until the commit, a batch under way. It may join
// the next pass. What needs more than that is written by itself between two passes: a last pair,
// a value that is large enough to be made durable by itself, a leaf when there is no space.
//
// The locks of a pass's leaves are held until step 2 is durable, and are only tried: who waits, for
// a leaf or for a batch, holds no lock.
#include <algorithm>
#include <bit>
#include <bitset>
#include <numeric>

#include "index/lbtree/fingerprints.h"
#include "index/lbtree/group.h"
#include "index/node/op_rules.h"
#include "index/pmem/crash_point.h"

namespace lodgekv::lbtree {

template <class C>
Outcome LbTree<C>::WriteGroup(std::span<const WriteOp> ops, std::span<WriteResult> results,
                              const WriteOptions& options) {
  for (size_t begin = 0; begin < ops.size(); begin += kMostMembers) {
    const auto some = ops.subspan(begin, std::min(kMostMembers, ops.size() - begin));
    const auto result = results.subspan(begin, some.size());
    WriteInPasses(
        some.size(), /*of_batch=*/false,
        {.hash_of = [&](size_t i) { return C::MakeKey(some[i].key).hash; },
         .join = [&](Group& group,
                     size_t i) { return Join(group, some[i], &result[i], options.now_unix_ms); },
         .write_alone = [&](size_t i) { (void)WriteOne(some[i], &result[i], options); },
         .fail =
             [&](size_t i) {
               // A condition, too, was looked at beside what is not durable.
               const Outcome outcome = result[i].outcome;
               if (outcome != Outcome::kOk && outcome != Outcome::kConditionFailed) return;
               result[i] = {Outcome::kMediumFailed, false, 0};
             }});
    FinishWrite(workers_.Current());
  }
  for (const WriteResult& result : results) {
    if (result.outcome != Outcome::kOk) return result.outcome;
  }
  return Outcome::kOk;
}

// At most kMostMembers. Each pass decides at least one operation, or waits for nothing any more.
template <class C>
void LbTree<C>::WriteInPasses(size_t count, bool of_batch, const Members& members) {
  Group group(of_batch);
  uint16_t waiting[kMostMembers];
  std::iota(waiting, waiting + count, uint16_t{0});
  while (count > 0) {
    uint16_t joined[kMostMembers];
    uint16_t alone[kMostMembers];
    size_t joined_count = 0;
    size_t alone_count = 0;
    size_t later_count = 0;
    std::bitset<1024> passed_over;  // by the key's hash
    for (const uint16_t i : std::span(waiting, count)) {
      const size_t key = members.hash_of(i) % passed_over.size();
      Joining joining = Joining::kLater;
      if (!IsFull(group) && !passed_over[key]) joining = members.join(group, i);
      if (joining == Joining::kJoined) {
        joined[joined_count++] = i;
        continue;
      }
      if (!medium_.Canary("lbtree.group.overtakes")) passed_over.set(key);
      if (joining == Joining::kAlone) {
        alone[alone_count++] = i;
      } else {
        waiting[later_count++] = i;
      }
    }
    CommitGroup(group);
    count = later_count;
    if (medium_.failed()) {
      for (const uint16_t i : std::span(joined, joined_count)) members.fail(i);
    }
    if (group.leaves.empty()) {
      for (const uint16_t i : std::span(alone, alone_count)) members.write_alone(i);
    } else {
      std::copy_n(alone, alone_count, waiting + count);
      std::inplace_merge(waiting, waiting + count, waiting + count + alone_count);
      count += alone_count;
    }
  }
}

template <class C>
typename LbTree<C>::Joining LbTree<C>::Join(Group& group, const WriteOp& op, WriteResult* result,
                                            uint64_t now) {
  *result = {medium_.failed() ? Outcome::kMediumFailed : CheckFormat(op, codec_), false, 0};
  if (result->outcome != Outcome::kOk) return Joining::kJoined;
  if (IsLarge(op)) return Joining::kAlone;
  PendingOp pending{.op = &op, .result = result, .key = C::MakeKey(op.key), .staged = {}};
  GroupLeaf* leaf = JoinLeaf(group, pending.key);
  if (leaf == nullptr) return Joining::kLater;
  result->outcome = Evaluate(leaf->locked, pending, now);
  if (!pending.apply) {
    if (result->outcome != Outcome::kConditionFailed) result->version = 0;
    return Joining::kJoined;
  }
  if (op.kind == WriteKind::kDelete) return JoinDelete(group, *leaf);
  const Joining room = MakeRoom(group, pending.key, &leaf);
  if (room != Joining::kJoined) return room;
  if (StagePair(pool_, slab_, codec_, op, pending.key, &pending.staged) != Outcome::kOk) {
    return Joining::kAlone;
  }
  FinishStaged(pending);
  JoinPut(group, *leaf, pending.staged.pair);
  return Joining::kJoined;
}

// Of an atomic batch, whose keys are locked, or of recovery: what has been done is not done again.
template <class C>
typename LbTree<C>::Joining LbTree<C>::JoinIntended(Group& group, const IntendedOp& op) {
  char scratch[8];
  const Key key = KeyOf(op, scratch);
  GroupLeaf* leaf = JoinLeaf(group, key);
  if (leaf == nullptr) return Joining::kLater;
  const Place place = leaf->locked.place;
  if (op.remove) return place.found() ? JoinDelete(group, *leaf) : Joining::kJoined;
  if (place.found()) {
    const Pair there = SlotPair(leaf->locked.leaf[place.block], static_cast<unsigned>(place.slot));
    if (there.value == op.pair.value) return Joining::kJoined;
  }
  const Joining room = MakeRoom(group, key, &leaf);
  if (room == Joining::kJoined) JoinPut(group, *leaf, op.pair);
  return room;
}

// Its record takes a fence of its own, and time, which no lock waits for.
template <class C>
bool LbTree<C>::IsLarge(const WriteOp& op) const {
  if constexpr (C::kRecords) {
    return op.kind == WriteKind::kPut &&
           slab_.IsLarge(RecordBytes(op.key.size(), op.value.size(), op.expiry_unix_ms != 0));
  }
  return false;
}

template <class C>
bool LbTree<C>::IsFull(const Group& group) const {
  return group.leaves.size() >= (pending_ != nullptr ? Group::kMostLeaves : Group::kMostShortHeld);
}

// Null: the key's leaf cannot be had without waiting, is in use under the lock of another, or has
// no use for the key before the commit.
template <class C>
typename LbTree<C>::GroupLeaf* LbTree<C>::JoinLeaf(Group& group, const Key& key) const {
  const bool waits = group.leaves.empty();
  GroupLeaf* held = nullptr;
  for (Backoff backoff;; backoff.Pause()) {
    uint64_t snapshot;
    media::Block* leaf = tree_.DescendForWrite(key, &snapshot);
    const auto same = std::ranges::find(group.locks, &locks_.Of(leaf));
    if (same != group.locks.end()) {
      held = &group.leaves[static_cast<size_t>(same - group.locks.begin())];
      if (held->locked.leaf != leaf) return nullptr;
      break;
    }
    held = Hold(group, leaf, snapshot, key);
    if (held != nullptr) break;
    if (!waits) return nullptr;
  }
  const bool taken = !group.of_batch && key_locks_.IsTaken(key.hash);
  if (taken && !medium_.Canary("lbtree.group.batches_ignored")) return nullptr;
  return LeafInGroup(group, *held, key);
}

// Adds the leaf, if its lock is to be had as of `snapshot`; else null. Who holds no other waits for
// a batch that has the key.
template <class C>
typename LbTree<C>::GroupLeaf* LbTree<C>::Hold(Group& group, media::Block* leaf, uint64_t snapshot,
                                               const Key& key) const {
  VersionLock& lock = locks_.Of(leaf);
  if (!lock.TryUpgrade(snapshot)) return nullptr;
  const bool taken = !group.of_batch && group.leaves.empty() && key_locks_.IsTaken(key.hash);
  if (taken && !medium_.Canary("lbtree.group.batches_ignored")) {
    lock.Unlock();
    key_locks_.AwaitFree(key.hash);
    return nullptr;
  }
  group.locks.push_back(&lock);
  GroupLeaf* held = &group.leaves.emplace_back();
  BeginGroupLeaf({leaf, &lock, {}}, key, held);
  return held;
}

// The held leaf, or the one of those split off it, that the key belongs to. Null: it takes nothing
// more, or nothing in that block.
template <class C>
typename LbTree<C>::GroupLeaf* LbTree<C>::LeafInGroup(Group& group, GroupLeaf& held,
                                                      const Key& key) const {
  GroupLeaf* leaf = &held;
  NewLeaf* to = nullptr;
  for (NewLeaf* at = held.right; at != nullptr && C::CompareToKey(at->low, key) <= 0;
       at = at->next) {
    to = at;
  }
  if (to != nullptr) {
    leaf = &group.at_new_leaf;
    BeginGroupLeaf({to->leaf, held.locked.lock, {}}, key, leaf);
    leaf->committed = 0;
    leaf->held = &held;
    leaf->new_leaf = to;
  } else if (held.right != nullptr && blocks_ > 1) {
    held.awaited = true;
    return nullptr;
  } else if (held.value != nullptr) {
    return nullptr;
  } else if (!held.touched()) {
    BeginGroupLeaf(held.locked, key, &held);
  }
  leaf->locked.place = FindPlaceInGroup(*leaf, key);
  if (leaf->locked.place.found() && leaf->locked.place.block != leaf->block) return nullptr;
  return leaf;
}

// Chooses the block: the key's, or one with room.
template <class C>
void LbTree<C>::BeginGroupLeaf(const Locked& locked, const Key& key, GroupLeaf* leaf) const {
  unsigned block = 0;
  const Place place = blocks_ > 1 ? FindPlace(locked.leaf, key) : Place{};
  if (place.found()) {
    block = place.block;
  } else {
    while (block + 1 < blocks_ && HeaderOf(locked.leaf, block).slots() == UsableSlots()) ++block;
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

// As operations of the group that came before have left it.
template <class C>
typename LbTree<C>::Place LbTree<C>::FindPlaceInGroup(const GroupLeaf& leaf, const Key& key) const {
  const Place place = blocks_ > 1 ? FindPlace(leaf.locked.leaf, key) : Place{};
  if (place.found() && place.block != leaf.block) return place;
  uint32_t slots = leaf.header.slots();
  if (parameters_.fingerprints) {
    slots &= MatchFingerprintsScalar(leaf.header, FingerprintOf(key.hash));
  }
  for (; slots != 0; slots &= slots - 1) {
    const int slot = std::countr_zero(slots);
    const Pair pair = SlotPair(leaf.locked.leaf[leaf.block], static_cast<unsigned>(slot));
    if (codec_.MayMatch(key, pair) && codec_.Matches(key, pair)) return {leaf.block, slot};
  }
  return {};
}

template <class C>
typename LbTree<C>::Joining LbTree<C>::JoinDelete(Group& group, GroupLeaf& leaf) {
  if (parameters_.unlink_leaves && HoldsOnePair(leaf.locked.leaf, leaf.block, leaf.header)) {
    return Joining::kAlone;
  }
  Worker& worker = workers_.Current();
  DropInGroup(worker, leaf);
  StoreNewHeader(leaf);
  group.changes = true;
  worker.counters.Add(WorkerCounters::kDeletes);
  return Joining::kJoined;
}

// Room has been made.
template <class C>
void LbTree<C>::JoinPut(Group& group, GroupLeaf& leaf, Pair pair) {
  group.changes = true;
  if (!HasRoom(leaf)) return ChangeInSlot(group, leaf, pair);
  Worker& worker = workers_.Current();
  media::Block& block = leaf.locked.leaf[leaf.block];
  const bool update = leaf.locked.place.found();
  if (update) DropInGroup(worker, leaf);
  // An update moves nothing: until the commit each entry that moves has two slots.
  const unsigned line =
      StageInsert(worker, block, leaf.header_line, pair, leaf.committed, !update, &leaf.header);
  const bool beside = line == leaf.header_line;
  if (!beside) leaf.lines_to_flush |= LeafLine(leaf.block, line);
  leaf.staged = true;
  StoreNewHeader(leaf);
  group.fences_first |= !beside || HasRecord(pair) || medium_.strict_order();
  if (update) {
    worker.counters.Add(WorkerCounters::kUpdates);
  } else {
    CountInsert(worker, beside);
  }
}

// The leaf's only change in this pass.
template <class C>
void LbTree<C>::ChangeInSlot(Group& group, GroupLeaf& leaf, Pair pair) {
  const Place place = leaf.locked.place;
  Worker& worker = workers_.Current();
  leaf.value = &leaf.locked.leaf[place.block].slots[place.slot].value;
  leaf.new_value = pair.value;
  worker.replaced.push_back(leaf.value->LoadRelaxed());
  group.fences_first |= HasRecord(pair) && !medium_.Canary("lbtree.group.value_not_fenced");
  worker.counters.Add(WorkerCounters::kUpdates);
}

// The pair that was found counts no more when the group is committed.
template <class C>
void LbTree<C>::DropInGroup(Worker& worker, GroupLeaf& leaf) {
  const auto slot = static_cast<unsigned>(leaf.locked.place.slot);
  worker.replaced.push_back(SlotPair(leaf.locked.leaf[leaf.block], slot).value);
  leaf.header.Clear(uint32_t{1} << slot);
}

// Commits what `group` holds and lets the locks go that nobody waits for.
template <class C>
void LbTree<C>::CommitGroup(Group& group) {
  Worker& worker = workers_.Current();
  if (group.changes) {
    FlushGroup(group);
    CommitLeaves(group);
    worker.counters.Add(WorkerCounters::kGroups);
  }
  LetGo(group);
  LODGEKV_CRASH_POINT(medium_, "lbtree.group.4");
  if (!medium_.Canary("lbtree.group.records_stay")) {
    for (const uint64_t value_word : worker.replaced) RetireRecord(worker, value_word);
  }
  worker.replaced.clear();
}

template <class C>
void LbTree<C>::LetGo(Group& group) {
  size_t kept = 0;
  for (size_t i = 0; i < group.leaves.size(); ++i) {
    const Locked locked = group.leaves[i].locked;
    if (!group.leaves[i].awaited) {
      locked.lock->Unlock();
      continue;
    }
    group.locks[kept] = locked.lock;
    media::Word* words = locked.leaf[0].header;
    group.leaves[kept++] = {.locked = locked, .words = words, .header = LoadHeader(words)};
  }
  group.locks.resize(kept);
  group.leaves.resize(kept);
  group.new_leaves.clear();
  group.changes = group.fences_first = false;
}

template <class C>
void LbTree<C>::FlushGroup(Group& group) {
  for (const GroupLeaf& leaf : group.leaves) {
    if (!leaf.changes()) continue;
    if (leaf.staged) {
      const uint64_t word1 = leaf.header.words[1];
      if (leaf.words[1].LoadRelaxed() != word1) medium_.Store(leaf.words[1], word1);
      if (medium_.strict_order()) medium_.FlushLine(leaf.words);
    }
    FlushLines(leaf.locked.leaf, leaf.lines_to_flush);
  }
  for (const NewLeaf& leaf : group.new_leaves) {
    if (medium_.Canary("lbtree.group.leaf_not_flushed")) break;
    FlushLines(leaf.leaf, LinesInUse(leaf.leaf));
  }
  LODGEKV_CRASH_POINT(medium_, "lbtree.group.1");
  if (group.fences_first) medium_.Fence();
  LODGEKV_CRASH_POINT(medium_, "lbtree.group.2");
}

template <class C>
void LbTree<C>::CommitLeaves(Group& group) {
  GroupLeaf* changing[Group::kMostLeaves];
  size_t count = 0;
  for (GroupLeaf& leaf : group.leaves) {
    if (leaf.changes()) changing[count++] = &leaf;
  }
  const size_t at_once = pending_ != nullptr ? Group::kMostLeaves : Group::kMostPublished;
  for (size_t i = 0; i < count; i += at_once) {
    CommitTogether(std::span(changing + i, std::min(at_once, count - i)));
  }
}

// One NAW for each leaf. Two leaves never share a lock.
template <class C>
void LbTree<C>::CommitTogether(std::span<GroupLeaf*> leaves) {
  for (const GroupLeaf* leaf : leaves) {
    BeginCommit(leaf->locked, leaf->commit());
    medium_.Store(leaf->commit(), leaf->commit_word());
    medium_.FlushLine(&leaf->commit());
  }
  LODGEKV_CRASH_POINT(medium_, "lbtree.group.3");
  medium_.Fence();
  for (GroupLeaf* leaf : leaves) {
    BeginPublish(leaf->locked);
    PublishNewLeaves(*leaf);
    EndPublish(leaf->locked);
  }
}

template class LbTree<Fixed64Codec>;
template class LbTree<BytesCodec>;

}  // namespace lodgekv::lbtree
