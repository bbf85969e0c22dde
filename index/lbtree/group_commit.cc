// Group commit: operations that need not be atomic share two fences, each with an outcome of its
// own. What they change in a leaf is gathered in a header in DRAM, and counts by one store.
//
//  step                                          after a crash           recovery
//  1  records; pairs, moved pairs and the        the old headers: slots  marks free the records
//     fingerprints of word 1 in slots that do    that do not count hold
//     not count, in all leaves; one flush of     anything
//     each line; fence
//  2  word 0 of each leaf's header; fence        of each leaf the old    nothing
//                                                header or the new
//
// Step 1 needs no fence where every pair lies in its header's line, without a record, and words of
// a line do not tear; nor where pairs only go. A put of a key that is there takes another slot: so
// a leaf has one commit.
//
// The locks of the leaves are held until step 2 is durable. Only the first is waited for: what does
// not join at once (a busy or full leaf, a last pair, a batch under way, a lock that covers two
// leaves) ends the group, and begins the next one or is written by itself; so does a value that is
// large enough to be made durable by itself.
#include <algorithm>
#include <bit>

#include "index/lbtree/fingerprints.h"
#include "index/lbtree/lbtree.h"
#include "index/node/op_rules.h"
#include "index/pmem/crash_point.h"

namespace lodgekv::lbtree {

template <class C>
struct LbTree<C>::GroupLeaf {
  Locked locked;
  unsigned block;  // the one that changes
  unsigned header_line;
  media::Word* words;       // of its header
  Header header;            // as it is going to be
  uint32_t committed;       // slots that count until then: none of them is written
  uint32_t lines_to_flush;  // besides the header's
  bool staged;              // something was stored in it

  bool changes() const { return header.words[0] != words[0].LoadRelaxed(); }
};

template <class C>
struct LbTree<C>::Group {
  static constexpr size_t kMostLeaves = 64;
  // Where readers wait until the fence: more would gain little by sharing it.
  static constexpr size_t kMostPublished = 16;
  GroupLeaf leaves[kMostLeaves];
  size_t count = 0;
  bool changes = false;
  bool fences_first = false;  // before the headers
};

template <class C>
Outcome LbTree<C>::WriteGroup(std::span<const WriteOp> ops, std::span<WriteResult> results,
                              const WriteOptions& options) {
  Group group;
  size_t begin = 0;  // of the operations in it
  for (size_t i = 0; i < ops.size(); ++i) {
    if (Join(group, ops[i], &results[i], options.now_unix_ms)) continue;
    CommitGroup(group, results.subspan(begin, i - begin));
    begin = i;
    if (Join(group, ops[i], &results[i], options.now_unix_ms)) continue;
    CommitGroup(group, {});
    (void)WriteOne(ops[i], &results[i], options);
    begin = i + 1;
  }
  CommitGroup(group, results.subspan(begin));
  for (const WriteResult& result : results) {
    if (result.outcome != Outcome::kOk) return result.outcome;
  }
  return Outcome::kOk;
}

// True: the operation is in the group, or decided. False: nothing was done.
template <class C>
bool LbTree<C>::Join(Group& group, const WriteOp& op, WriteResult* result, uint64_t now) {
  *result = {medium_.failed() ? Outcome::kMediumFailed : CheckFormat(op, codec_), false, 0};
  if (result->outcome != Outcome::kOk) return true;
  if (IsLarge(op)) return false;
  PendingOp pending{.op = &op, .result = result, .key = C::MakeKey(op.key), .staged = {}};
  GroupLeaf* leaf = JoinLeaf(group, pending.key);
  if (leaf == nullptr) return false;
  const bool found = leaf->locked.place.found();
  if (found && leaf->locked.place.block != leaf->block) return false;
  result->outcome = Evaluate(leaf->locked, pending, now);
  if (!pending.apply) {
    if (result->outcome != Outcome::kConditionFailed) result->version = 0;
    return true;
  }
  return op.kind == WriteKind::kDelete ? JoinDelete(*leaf, group) : JoinPut(*leaf, pending, group);
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

// Null: the key's leaf cannot be had without waiting, or is in use under the lock of another.
template <class C>
typename LbTree<C>::GroupLeaf* LbTree<C>::JoinLeaf(Group& group, const Key& key) const {
  GroupLeaf* found = nullptr;
  for (Backoff backoff;;) {
    uint64_t snapshot;
    media::Block* leaf = tree_.DescendForWrite(key, &snapshot);
    VersionLock& lock = locks_.Of(leaf);
    const auto held = std::span(group.leaves, group.count);
    const auto same = std::ranges::find(held, &lock, [](auto& it) { return it.locked.lock; });
    if (same != held.end()) {
      if (same->locked.leaf != leaf) return nullptr;
      found = &*same;
      break;
    }
    if (group.count == (pending_ != nullptr ? Group::kMostLeaves : Group::kMostPublished)) {
      return nullptr;
    }
    if (lock.TryUpgrade(snapshot)) {
      found = &group.leaves[group.count++];
      BeginGroupLeaf({leaf, &lock, {}}, key, found);
      break;
    }
    if (group.count > 0) return nullptr;
    backoff.Pause();
  }
  if (key_locks_.IsTaken(key.hash) && !medium_.Canary("lbtree.group.batches_ignored")) {
    return nullptr;
  }
  found->locked.place = FindPlaceInGroup(*found, key);
  return found;
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
  *leaf = {locked, block, HeaderLine(block, alt), words, header, header.slots(), 0, false};
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
bool LbTree<C>::JoinDelete(GroupLeaf& leaf, Group& group) {
  if (parameters_.unlink_leaves && HoldsOnePair(leaf.locked.leaf, leaf.block, leaf.header)) {
    return false;
  }
  Worker& worker = workers_.Current();
  DropInGroup(worker, leaf);
  group.changes = true;
  worker.counters.Add(WorkerCounters::kDeletes);
  return true;
}

template <class C>
bool LbTree<C>::JoinPut(GroupLeaf& leaf, PendingOp& pending, Group& group) {
  if ((UsableSlots() & ~leaf.header.slots() & ~leaf.committed) == 0) return false;
  if (StagePair(pool_, slab_, codec_, *pending.op, pending.key, &pending.staged) != Outcome::kOk) {
    return false;
  }
  FinishStaged(pending);
  Worker& worker = workers_.Current();
  const Pair pair = pending.staged.pair;
  const bool update = leaf.locked.place.found();
  if (update) DropInGroup(worker, leaf);
  media::Block& block = leaf.locked.leaf[leaf.block];
  // An update moves nothing: until the commit each entry that moves has two slots.
  const unsigned line =
      StageInsert(worker, block, leaf.header_line, pair, leaf.committed, !update, &leaf.header);
  const bool beside = line == leaf.header_line;
  if (!beside) leaf.lines_to_flush |= 1u << line;
  leaf.staged = group.changes = true;
  group.fences_first |= !beside || HasRecord(pair) || medium_.strict_order();
  if (update) {
    worker.counters.Add(WorkerCounters::kUpdates);
  } else {
    CountInsert(worker, beside);
  }
  return true;
}

// The pair that was found counts no more when the group is committed.
template <class C>
void LbTree<C>::DropInGroup(Worker& worker, GroupLeaf& leaf) {
  const auto slot = static_cast<unsigned>(leaf.locked.place.slot);
  worker.replaced.push_back(SlotPair(leaf.locked.leaf[leaf.block], slot).value);
  leaf.header.Clear(uint32_t{1} << slot);
}

// Commits what `group` holds, lets the locks go and empties it. `results` are those of its
// operations.
template <class C>
void LbTree<C>::CommitGroup(Group& group, std::span<WriteResult> results) {
  Worker& worker = workers_.Current();
  if (group.changes) {
    FlushGroup(group);
    CommitHeaders(group);
    worker.counters.Add(WorkerCounters::kGroups);
  }
  for (GroupLeaf& leaf : std::span(group.leaves, group.count)) leaf.locked.lock->Unlock();
  if (!medium_.Canary("lbtree.group.records_stay")) {
    for (const uint64_t value_word : worker.replaced) RetireRecord(worker, value_word);
  }
  worker.replaced.clear();
  FinishWrite(worker);
  if (medium_.failed()) {
    // A condition, too, was looked at beside what is not durable.
    for (WriteResult& result : results) {
      if (result.outcome == Outcome::kOk || result.outcome == Outcome::kConditionFailed) {
        result = {Outcome::kMediumFailed, false, 0};
      }
    }
  }
  group.count = 0;
  group.changes = group.fences_first = false;
}

template <class C>
void LbTree<C>::FlushGroup(Group& group) {
  for (const GroupLeaf& leaf : std::span(group.leaves, group.count)) {
    if (!leaf.changes() || !leaf.staged) continue;
    const uint64_t word1 = leaf.header.words[1];
    if (leaf.words[1].LoadRelaxed() != word1) medium_.Store(leaf.words[1], word1);
    if (medium_.strict_order()) medium_.FlushLine(leaf.words);
    const auto* block = reinterpret_cast<const char*>(&leaf.locked.leaf[leaf.block]);
    for (uint32_t lines = leaf.lines_to_flush; lines != 0; lines &= lines - 1) {
      medium_.FlushLine(block + std::countr_zero(lines) * pmem::kLineBytes);
    }
  }
  LODGEKV_CRASH_POINT(medium_, "lbtree.group.1");
  if (group.fences_first) medium_.Fence();
  LODGEKV_CRASH_POINT(medium_, "lbtree.group.2");
}

// One NAW for each leaf.
template <class C>
void LbTree<C>::CommitHeaders(Group& group) {
  GroupLeaf* changing[Group::kMostLeaves];
  size_t count = 0;
  for (GroupLeaf& leaf : std::span(group.leaves, group.count)) {
    if (leaf.changes()) changing[count++] = &leaf;
  }
  for (const GroupLeaf* leaf : std::span(changing, count)) {
    BeginCommit(leaf->locked, leaf->words[0]);
    medium_.Store(leaf->words[0], leaf->header.words[0]);
    medium_.FlushLine(leaf->words);
  }
  LODGEKV_CRASH_POINT(medium_, "lbtree.group.3");
  medium_.Fence();
  for (const GroupLeaf* leaf : std::span(changing, count)) {
    BeginPublish(leaf->locked);
    EndPublish(leaf->locked);
  }
  LODGEKV_CRASH_POINT(medium_, "lbtree.group.4");
}

template class LbTree<Fixed64Codec>;
template class LbTree<BytesCodec>;

}  // namespace lodgekv::lbtree
