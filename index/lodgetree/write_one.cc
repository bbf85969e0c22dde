// A lone operation: what comes before its lock, and the fast paths on which nothing is to be
// decided.
#include <algorithm>
#include <bit>

#include "index/lodgetree/group_write.h"
#include "index/lodgetree/lodgetree.h"
#include "index/lodgetree/node_merge.h"
#include "index/lodgetree/space_reclaim.h"
#include "index/node/log_fence.h"
#include "index/node/op_rules.h"
#include "index/node/optimistic_section.h"
#include "index/node/prefetch.h"
#include "index/node/search_form.h"

namespace lodgekv::lodgetree {

namespace {
// While the node's first lines are on their way: the search tells which mirror is needed.
template <class Node>
void FetchMirrors(const Node* node) {
  const char* at = reinterpret_cast<const char*>(&node->mirrors);
  for (size_t i = 0; i < sizeof(node->mirrors); i += pmem::kLineBytes) Prefetch(at + i);
}
}  // namespace

// Finds the node, and writes the pair if that is all there is to decide: then `result` is set, and
// what is returned is empty.
template <class C>
template <class Form>
SeenNode<C> LodgeTree<C>::Begin(const WriteOp& op, const Key& key, const WriteOptions& options,
                                WriteResult* result) {
  SeenNode<C> seen;
  seen.node = parts_.tree.template DescendForWrite<Form>(key, &seen.snapshot);
  if (WriteAlone<Form>(op, key, options, seen, result)) return {};
  return seen;
}

// The search comes first: its cache misses overlap with the fence of the previous operation, as
// long as the stores in between fit into the processor's store buffer.
template <class C>
Outcome LodgeTree<C>::WriteOne(const WriteOp& op, WriteResult* result,
                               const WriteOptions& options) {
  const Outcome format = CheckFormat(op, parts_.codec);
  if (format != Outcome::kOk) {
    *result = {format, false, 0};
    return format;
  }
  const Key key = C::MakeKey(op.key);
  const SeenNode<C> seen = RunBySearchForm(
      [](auto form, LodgeTree* tree, const WriteOp* its_op, const Key* its_key,
         const WriteOptions* its_options, WriteResult* its_result) {
        return tree->Begin<decltype(form)>(*its_op, *its_key, *its_options, its_result);
      },
      this, &op, &key, &options, result);
  if (seen.node == nullptr) return result->outcome;
  FetchCurrent(op, key, seen.node);
  return SpaceReclaimer<C>(parts_, parts_.CurrentWorker()).TryToFit([&] {
    PendingOp<C> pending;
    pending.Begin(op, key, result);
    const Outcome outcome = Stage(&pending);
    return outcome == Outcome::kOk ? WriteGroup({&pending, 1}, options, seen) : outcome;
  });
}

// The fast path: no condition, a key that is not buffered, room in the log and in the pool. Does
// the same as WriteGroup in that case. False: nothing was done.
template <class C>
template <class Form>
bool LodgeTree<C>::WriteAlone(const WriteOp& op, const Key& key, const WriteOptions& options,
                              SeenNode<C> seen, WriteResult* result) {
  if (op.condition != Condition::kNone || options.applied_index.has_value()) return false;
  if (!parts_.parameters.surrogate_buffer || parts_.log.OpenRoom() == 0) return false;
  if (parts_.medium.failed() || parts_.pool.tight()) return false;
  const bool deletes = op.kind == WriteKind::kDelete;
  if (deletes) FetchMirrors(seen.node);
  Worker<C>& worker = parts_.CurrentWorker();
  Place place{.node = seen.node, .snapshot = seen.snapshot};
  {
    const OptimisticSection section;
    const auto position = place.node->template Search<Form>(key);
    if (position.hits != 0) return false;
    place.leaf = position.leaf;
    place.drains = parts_.planner.NeedsDrain(place.node, place.leaf);
    if (place.drains) PlanDrain(place, worker);
  }
  return deletes ? DeleteAlone(key, &place, worker, options, result)
                 : PutAlone(op, key, place, worker, result);
}

// Before the lock, so that the lines are fetched while the previous fence is waited for.
template <class C>
[[gnu::noinline]] void LodgeTree<C>::PlanDrain(const Place& place, Worker<C>& worker) const {
  parts_.planner.ChooseTargets(place.node, place.leaf, &worker.plan);
  if (worker.plan.splits > 0) worker.spares.Prefetch(parts_.pool);
}

// Locks the node as it was seen, if there is a leaf for what the plan may split.
template <class C>
bool LodgeTree<C>::LockPlace(const Place& place, pmem::ReservePolicy policy, Worker<C>& worker) {
  if (!place.node->lock.TryUpgrade(place.snapshot)) return false;
  if (!place.drains || worker.plan.splits == 0) return true;
  if (worker.spares.Ensure(parts_.spare_source, 1, policy)) return true;
  place.node->lock.Unlock();
  return false;
}

template <class C>
bool LodgeTree<C>::PutAlone(const WriteOp& op, const Key& key, const Place& place,
                            Worker<C>& worker, WriteResult* result) {
  StagedPair<C> staged;
  if constexpr (C::kRecords) {
    parts_.longest_key.Note(op.key.size());
    if (StagePair(parts_.pool, parts_.slab, parts_.codec, op, key, &staged) != Outcome::kOk)
      return false;
  }
  if (!LockPlace(place, pmem::ReservePolicy::kKeep, worker)) {
    DiscardStaged(parts_.slab, &staged);
    return false;
  }
  // Not before the lock: measured, that makes inserts of such pairs a tenth slower.
  if constexpr (!C::kRecords) staged.pair = {key.word, KeyWord(op.value, 0)};
  const uint64_t version = place.drains ? LogAndDrain(place, key, &staged, LogOp::kPut, worker)
                                        : LogAndBuffer(place, key, &staged, LogOp::kPut, worker);
  *result = {};
  if (parts_.medium.failed()) {
    result->outcome = Outcome::kMediumFailed;
  } else if constexpr (C::kRecords) {
    if (!parts_.codec.inline_pairs()) result->version = version;
  }
  return true;
}

// Numbers the pair and logs it; not fenced.
template <class C>
auto LodgeTree<C>::LogPair(StagedPair<C>* staged, LogOp op, Worker<C>& worker) -> Logged {
  worker.ReleaseDrainedLogs(parts_.log);
  if constexpr (C::kRecords) parts_.horizon.BeginTaking();
  const uint64_t sequence = parts_.pool.TakeSequence(1);
  if constexpr (C::kRecords) {
    if (staged->record.offset != 0) FinishRecord(parts_.pool, staged->record, sequence);
  }
  const uint32_t log = parts_.log.Append(staged->pair, sequence, op, 0, staged->record.crc);
  EndAppend(parts_.medium);
  return {sequence, log};
}

// Logs the pair, makes that durable, and buffers it in the node, which has room. The caller holds
// the node's lock, which is released. Returns the pair's number.
template <class C>
uint64_t LodgeTree<C>::LogAndBuffer(const Place& place, const Key& key, StagedPair<C>* staged,
                                    LogOp op, Worker<C>& worker) {
  const Logged logged = LogPair(staged, op, worker);
  FenceLog(parts_.medium);
  if constexpr (C::kRecords) parts_.horizon.EndTaking();
  const bool tombstone = op == LogOp::kDelete;
  place.node->InsertBuffered(place.leaf, key, staged->pair, logged.log, tombstone);
  if (C::kRecords || tombstone) parts_.holders.Note(place.node);
  place.node->lock.Unlock();
  return logged.sequence;
}

// The same with a drain: before the pair is buffered, if there is no room, and after it, if it may
// leave a leaf without pairs.
template <class C>
[[gnu::noinline]] uint64_t LodgeTree<C>::LogAndDrain(const Place& place, const Key& key,
                                                     StagedPair<C>* staged, LogOp op,
                                                     Worker<C>& worker) {
  const auto [sequence, log] = LogPair(staged, op, worker);
  Node* node = place.node;
  unsigned leaf = place.leaf;
  NodeWriter<C> nodes(parts_, worker);
  nodes.held.Add(node);
  nodes.plan_ready = place.drains;
  if (place.drains) node = nodes.MakeBufferRoom(node, key, sequence, &leaf);
  nodes.EnsureFenced();
  if constexpr (C::kRecords) parts_.horizon.EndTaking();
  const bool tombstone = op == LogOp::kDelete;
  node->InsertBuffered(leaf, key, staged->pair, log, tombstone);
  if (C::kRecords || tombstone) parts_.holders.Note(node);
  if (tombstone && parts_.planner.IsEmptied(node, leaf)) nodes.DrainLeaf(node, leaf, key, sequence);
  nodes.held.UnlockAll();
  FinishWrite(parts_, worker);
  return sequence;
}

// Whether the leaf has the key, as of `snapshot`. False: the node has changed meanwhile.
template <class C>
bool LodgeTree<C>::HasInLeaf(const Node* node, unsigned leaf, const Key& key, uint64_t snapshot,
                             bool* has) const {
  const OptimisticSection section;
  *has = false;
  uint32_t slots = node->mirrors[leaf].Candidates(FingerprintOf(key.hash));
  const pmem::Offset offset = node->values[leaf];
  // An address that may not be a leaf's is not followed.
  if (!node->lock.Validate(snapshot)) return false;
  const auto* media = parts_.pool.template At<media::Leaf>(offset);
  for (; slots != 0 && !*has; slots &= slots - 1) {
    *has = SlotPair(media, static_cast<unsigned>(std::countr_zero(slots))).key == key.word;
  }
  return true;
}

// Of pairs without records: the leaf is read before the lock, which proves what was found there, so
// that its cache misses overlap with the previous fence.
template <class C>
auto LodgeTree<C>::LockIfInLeaf(const Key& key, const Place& place, Worker<C>& worker) -> Victim {
  bool has;
  if (!HasInLeaf(place.node, place.leaf, key, place.snapshot, &has)) return Victim::kUndecided;
  if (!has) return place.node->lock.Validate(place.snapshot) ? Victim::kAbsent : Victim::kUndecided;
  return LockPlace(place, pmem::ReservePolicy::kUse, worker) ? Victim::kLocked : Victim::kUndecided;
}

// Of pairs with records, which only the lock keeps from being freed: the tombstone names the pair.
template <class C>
auto LodgeTree<C>::LockAndName(const Key& key, const Place& place, Worker<C>& worker, uint64_t now,
                               StagedPair<C>* staged, WriteResult* result) -> Victim
  requires C::kRecords
{
  if (!LockPlace(place, pmem::ReservePolicy::kUse, worker)) return Victim::kUndecided;
  const int slot = parts_.access.FindInLeaf(place.node, place.leaf, key);
  if (slot >= 0) {
    const media::Leaf* leaf = parts_.access.LeafAt(place.node, place.leaf);
    const uint64_t value = SlotPair(leaf, static_cast<unsigned>(slot)).value;
    staged->pair.value = value;
    result->found = parts_.values.Describe(value, now).live();
    if (parts_.values.IsSound(value)) {
      if (C::IsRecord(value))
        staged->record.crc = ViewRecord(parts_.pool, C::RecordOf(value)).crc;
      return Victim::kLocked;
    }
  }
  place.node->lock.Unlock();
  return slot < 0 ? Victim::kAbsent : Victim::kUndecided;
}

template <class C>
[[gnu::noinline]] bool LodgeTree<C>::DeleteAlone(const Key& key, Place* place, Worker<C>& worker,
                                                 const WriteOptions& options,
                                                 WriteResult* result) {
  StagedPair<C> staged{.pair = {key.word, 0}};
  *result = {};
  Victim victim;
  if constexpr (C::kRecords) {
    victim = LockAndName(key, *place, worker, options.now_unix_ms, &staged, result);
  } else {
    victim = LockIfInLeaf(key, *place, worker);
    result->found = victim == Victim::kLocked;
  }
  if (victim != Victim::kLocked) return victim == Victim::kAbsent;
  const unsigned deleted = static_cast<unsigned>(
      std::popcount(place->node->GroupMask(place->leaf))) + 1;
  place->empties = deleted >= place->node->leaf_count[place->leaf];
  if (place->drains || place->empties) {
    LogAndDrain(*place, key, &staged, LogOp::kDelete, worker);
  } else {
    LogAndBuffer(*place, key, &staged, LogOp::kDelete, worker);
  }
  if (parts_.medium.failed()) *result = {Outcome::kMediumFailed, false, 0};
  return true;
}

// Fetches what the operation has to find in a leaf before it can be decided, if anything.
template <class C>
void LodgeTree<C>::FetchCurrent(const WriteOp& op, const Key& key, const Node* node) const {
  if (op.kind != WriteKind::kDelete && op.condition == Condition::kNone) return;
  FetchMirrors(node);
  const OptimisticSection section;
  parts_.access.FetchSlots(node, node->Search(key).leaf, key);
}

template <class C>
Outcome LodgeTree<C>::WriteGroup(std::span<PendingOp<C>> group, const WriteOptions& options,
                                 SeenNode<C> seen) {
  return GroupWrite<C>(parts_, parts_.CurrentWorker(), group, options).Run(seen);
}

// Stages the pair of a put; the result has the outcome, too.
template <class C>
Outcome LodgeTree<C>::Stage(PendingOp<C>* pending) {
  const WriteOp& op = *pending->op;
  if (op.kind != WriteKind::kPut) return Outcome::kOk;
  if (C::kRecords) parts_.longest_key.Note(op.key.size());
  return pending->result->outcome = StagePair(parts_.pool, parts_.slab, parts_.codec, op,
                                              pending->key, &pending->staged);
}

template class LodgeTree<Fixed64Codec>;
template class LodgeTree<BytesCodec>;

}  // namespace lodgekv::lodgetree
