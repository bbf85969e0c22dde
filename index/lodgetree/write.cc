// Write: groups, conditions, the log, and the buffer.
//
//  step                                          after a crash           recovery
//  1  records and log entries written, unfenced  some, all or none       the group whole, or none
//  2  fence                                      all of the group        replayed
//  3  pairs published in the Buffer Part         (DRAM)                  replayed
#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "index/lodgetree/lodgetree.h"
#include "index/node/op_rules.h"
#include "index/node/optimistic_section.h"
#include "index/pmem/crash_point.h"

namespace lodgekv::lodgetree {

namespace {
// Of a group's log entries: those that are no operation's.
unsigned ExtraEntries(const WriteOptions& options) {
  return options.applied_index.has_value() ? 1 : 0;
}

constexpr size_t kLargestChunk = 256;  // operations of a group that need not be atomic
}  // namespace

template <class C>
typename LodgeTree<C>::Node* LodgeTree<C>::WriteContext::Covering(const Key& key) const {
  if (locked.size() == 1) return locked.front();
  const auto above = std::partition_point(
      locked.begin() + 1, locked.end(),
      [&key](const Node* node) { return C::CompareToKey(node->low(), key) <= 0; });
  return *(above - 1);
}

// --- entry ---

template <class C>
Outcome LodgeTree<C>::Write(std::span<const WriteOp> ops, std::span<WriteResult> results,
                            const WriteOptions& options) {
  Outcome outcome;
  if (ops.size() == 1 && !options.applied_index.has_value()) {
    outcome = WriteOne(ops[0], &results[0], options);
  } else if (options.atomic) {
    outcome = WriteAtomic(ops, results, options);
  } else {
    outcome = WriteChunks(ops, results, options);
  }
  // Who was refused has appended nothing.
  if (log_.owed() != 0 && outcome != Outcome::kPoolFull) [[unlikely]]
    EmptyOldLogs(ops.size());
  return outcome;
}

// The search comes before all else: its misses overlap with the fence of the operation before, as
// long as the stores in between fit into the processor's queue.
template <class C>
Outcome LodgeTree<C>::WriteOne(const WriteOp& op, WriteResult* result,
                               const WriteOptions& options) {
  const Outcome format = CheckFormat(op, codec_);
  if (format != Outcome::kOk) {
    *result = {format, false, 0};
    return format;
  }
  const Key key = C::MakeKey(op.key);
  Seen seen;
  seen.node = tree_.DescendForWrite(key, &seen.snapshot);
  if (!C::kRecords && PutIntoBuffer(op, key, options, seen)) {
    *result = {medium_.failed() ? Outcome::kMediumFailed : Outcome::kOk, false, 0};
    return result->outcome;
  }
  return TryToFit([&] {
    PendingOp pending;
    const Outcome outcome = Stage(op, key, result, &pending);
    return outcome == Outcome::kOk ? WriteGroup({&pending, 1}, options, seen) : outcome;
  });
}

// The steady way of a Put: nothing to decide, room in the log and in the buffer. What WriteGroup
// does then, and nothing else. False: nothing was done.
template <class C>
bool LodgeTree<C>::PutIntoBuffer(const WriteOp& op, const Key& key, const WriteOptions& options,
                                 Seen seen) {
  if (op.kind != WriteKind::kPut || op.condition != Condition::kNone) return false;
  if (options.applied_index.has_value() || !parameters_.surrogate_buffer) return false;
  if (log_.OpenRoom() == 0 || medium_.failed() || pool_.tight()) return false;
  Node* node = seen.node;
  typename Node::Position position;
  {
    const OptimisticSection section;
    position = node->Search(key);
    if (position.hits != 0 || NeedsFlush(node, position.leaf)) return false;
    if (!node->lock.TryUpgrade(seen.snapshot)) return false;
  }
  Worker& worker = CurrentWorker();
  ReleaseDrainedLogs(worker);
  PendingOp pending;
  pending.key = key;
  pending.staged.pair = {key.word, KeyWord(op.value, 0)};
  pending.tombstone = false;
  pending.log = log_.Append(pending.staged.pair, pool_.TakeSequence(1), media::LogOp::kPut, 0, 0);
  EndAppend();
  FenceLog();
  InsertBuffered(node, position.leaf, pending);
  node->lock.Unlock();
  return true;
}

// Of the operations in the window the first of each key share a fence. The later ones stay there,
// in order: each is evaluated when what came before it on its key is done.
template <class C>
void LodgeTree<C>::TakeChunk(std::span<const WriteOp> ops, Worker& worker) {
  auto& [chunk, window, pending] = worker.chunks;
  const bool overtakes = medium_.Canary("lodgetree.group.overtakes");
  std::sort(window.begin(), window.end(), [&](uint32_t a, uint32_t b) {
    const int by_key = ops[a].key.compare(ops[b].key);
    return by_key != 0 ? by_key < 0 : (a < b) != overtakes;
  });
  chunk.clear();
  size_t waiting = 0;
  for (const uint32_t i : window) {
    const bool repeats = !chunk.empty() && ops[i].key == ops[chunk.back()].key;
    if (repeats) {
      window[waiting++] = i;
    } else {
      chunk.push_back(i);
    }
  }
  window.resize(waiting);
  std::ranges::sort(chunk);
  std::ranges::sort(window);
  if (chunk.size() == 1 ||
      worker.spares.Ensure(spare_source_, chunk.size() + 1, pmem::Reserve::kKeep))
    return;
  // In a pool that is nearly full each operation is tried by itself.
  window.insert(window.end(), chunk.begin(), chunk.end());
  std::ranges::sort(window);
  chunk.assign(1, window.front());
  window.erase(window.begin());
}

template <class C>
void LodgeTree<C>::WriteChunk(std::span<const WriteOp> ops, std::span<WriteResult> results,
                              const WriteOptions& options, Worker& worker) {
  const auto& chunk = worker.chunks.chunk;
  if (chunk.size() == 1) {
    (void)WriteOne(ops[chunk[0]], &results[chunk[0]], options);
    return;
  }
  auto& group = worker.chunks.pending;
  group.clear();
  for (const uint32_t i : chunk) {
    PendingOp pending;
    if (Prepare(ops[i], &results[i], &pending) == Outcome::kOk) group.push_back(pending);
  }
  if (!group.empty()) (void)WriteGroup({group.data(), group.size()}, options);
}

template <class C>
Outcome LodgeTree<C>::WriteChunks(std::span<const WriteOp> ops, std::span<WriteResult> results,
                                  const WriteOptions& options) {
  Worker& worker = CurrentWorker();
  auto& window = worker.chunks.window;
  window.clear();
  for (uint32_t next = 0; next < ops.size() || !window.empty();) {
    while (next < ops.size() && window.size() < kLargestChunk) window.push_back(next++);
    TakeChunk(ops, worker);
    WriteChunk(ops, results, options, worker);
  }
  for (const WriteResult& result : results) {
    if (result.outcome != Outcome::kOk) return result.outcome;
  }
  return Outcome::kOk;
}

// Nothing of the group is applied; operations without an outcome of their own get kAborted.
template <class C>
Outcome LodgeTree<C>::AbortAll(std::span<PendingOp> group, std::span<WriteResult> results) {
  for (PendingOp& pending : group) Discard(pending);
  Outcome first = Outcome::kOk;
  for (WriteResult& result : results) {
    if (result.outcome == Outcome::kOk) result = {Outcome::kAborted, false, 0};
    if (first == Outcome::kOk) first = result.outcome;
  }
  return first;
}

template <class C>
Outcome LodgeTree<C>::WriteAtomic(std::span<const WriteOp> ops, std::span<WriteResult> results,
                                  const WriteOptions& options) {
  for (WriteResult& result : results) result = {};
  std::vector<PendingOp> group(ops.size());
  std::vector<std::string_view> keys;
  bool failed = false;
  for (const WriteOp& op : ops) keys.push_back(op.key);
  std::sort(keys.begin(), keys.end());
  for (size_t i = 0; i < ops.size() && !failed; ++i) {
    const auto [from, to] = std::equal_range(keys.begin(), keys.end(), ops[i].key);
    if (to - from > 1) results[i].outcome = Outcome::kInvalidArgument;
    failed = results[i].outcome != Outcome::kOk ||
             Prepare(ops[i], &results[i], &group[i]) != Outcome::kOk;
  }
  const size_t entries = ops.size() + (options.applied_index.has_value() ? 1 : 0);
  if (!failed && entries > log_.largest_group()) {
    for (WriteResult& result : results) result.outcome = Outcome::kPoolFull;
    failed = true;
  }
  if (failed) return AbortAll(group, results);
  const Outcome outcome = WriteGroup(group, options);
  return outcome == Outcome::kOk ? outcome : AbortAll({}, results);
}

// --- one fence group ---

template <class C>
Outcome LodgeTree<C>::WriteGroup(std::span<PendingOp> group, const WriteOptions& options,
                                 Seen seen) {
  Worker& worker = CurrentWorker();
  const auto fail_all = [&](Outcome outcome) {
    for (PendingOp& pending : group) {
      Discard(pending);
      *pending.result = {outcome, false, 0};
    }
    worker.spares.Trim(spare_source_);
    return outcome;
  };
  if (medium_.failed()) return fail_all(Outcome::kMediumFailed);
  const bool has_room = group.size() == 1 && log_.OpenRoom() > ExtraEntries(options);
  if (!has_room && !MakeRoom(group, worker, options)) return fail_all(Outcome::kPoolFull);
  WriteContext context(worker);
  context.kept_leaves = group.size() > 1 ? group.size() : 0;
  if (group.size() == 1) {
    LockOne(context, group[0].key, seen);
  } else {
    LockMany(context, group);
    for (unsigned tries = 0; !AdmitGroup(context, group); ++tries) {
      UnlockAll(context);
      if (tries == kMostReclaims || !ReclaimSpace()) return fail_all(Outcome::kPoolFull);
      LockMany(context, group);
    }
  }
  ReleaseDrainedLogs(worker);
  const bool all_hold = EvaluateAll(context, group, options);
  const bool appends = all_hold || !options.atomic;
  const uint32_t applied_log =
      appends ? AppendAndApply(context, group, options) : PartitionedVersionLog::kNoLog;
  if (appends) DrainEmptied(context, group);
  UnlockAll(context);
  if (applied_log != PartitionedVersionLog::kNoLog) {
    applied_.Store(*options.applied_index, applied_log);
  }
  FinishWrite(worker);
  Outcome first = Outcome::kOk;
  for (PendingOp& pending : group) {
    if (!pending.apply || (options.atomic && !all_hold)) Discard(pending);
    if (medium_.failed()) *pending.result = {Outcome::kMediumFailed, false, 0};
    if (first == Outcome::kOk) first = pending.result->outcome;
  }
  return first;
}

// Returns the log that holds the applied index, if one is given.
template <class C>
uint32_t LodgeTree<C>::AppendAndApply(WriteContext& context, std::span<PendingOp> group,
                                      const WriteOptions& options) {
  if constexpr (C::kRecords) horizon_.BeginTaking();
  const uint32_t applied_log = SharesFences(context, group)
                                   ? WriteInRounds(context, group, options)
                                   : AppendAndApplyEach(context, group, options);
  if (options.applied_index.has_value()) EnsureFenced(context);
  if constexpr (C::kRecords) horizon_.EndTaking();
  return applied_log;
}

// One after the other: each flush has its own fences.
template <class C>
uint32_t LodgeTree<C>::AppendAndApplyEach(WriteContext& context, std::span<PendingOp> group,
                                          const WriteOptions& options) {
  const uint32_t applied_log = AppendToLog(group, options);
  for (PendingOp& pending : group) {
    if (pending.apply) Apply(context, pending);
  }
  return applied_log;
}

template <class C>
bool LodgeTree<C>::EvaluateAll(WriteContext& context, std::span<PendingOp> group,
                               const WriteOptions& options) {
  bool all_hold = true;
  for (PendingOp& pending : group) {
    const Node* node = context.Covering(pending.key);
    pending.result->outcome = Evaluate(node, pending, options.now_unix_ms);
    if (group.size() == 1 && pending.apply && !AdmitOne(context, pending)) {
      pending.apply = false;
      *pending.result = {Outcome::kPoolFull, false, 0};
    }
    all_hold &= pending.result->outcome == Outcome::kOk;
  }
  return all_hold;
}

// --- before the locks ---

template <class C>
Outcome LodgeTree<C>::MakePair(const WriteOp& op, PendingOp* pending) {
  return StagePair(pool_, slab_, codec_, op, pending->key, &pending->staged);
}

template <class C>
Outcome LodgeTree<C>::Prepare(const WriteOp& op, WriteResult* result, PendingOp* pending) {
  const Outcome format = CheckFormat(op, codec_);
  if (format == Outcome::kOk) {
    return TryToFit([&] { return Stage(op, C::MakeKey(op.key), result, pending); });
  }
  *result = {format, false, 0};
  return format;
}

template <class C>
Outcome LodgeTree<C>::Stage(const WriteOp& op, const Key& key, WriteResult* result,
                            PendingOp* pending) {
  *result = {};
  pending->op = &op;
  pending->result = result;
  pending->key = key;
  if (C::kRecords && op.kind == WriteKind::kPut) longest_key_.Note(op.key.size());
  if (op.kind == WriteKind::kPut) result->outcome = MakePair(op, pending);
  return result->outcome;
}

// What a group may need from the medium is at hand before its first durable step: each operation
// may meet a node of a single leaf that must split. (A lone operation is told by AdmitOne, a group
// of deletes by AdmitGroup.)
template <class C>
[[gnu::noinline]] bool LodgeTree<C>::MakeRoom(std::span<const PendingOp> group, Worker& worker,
                                              const WriteOptions& options) {
  const bool puts = std::any_of(group.begin(), group.end(), [](const PendingOp& pending) {
    return pending.op->kind == WriteKind::kPut;
  });
  const auto reserve = puts ? pmem::Reserve::kKeep : pmem::Reserve::kUse;
  const auto entries = static_cast<unsigned>(group.size()) + ExtraEntries(options);
  bool logged = false;
  const auto enough = [&] {
    const bool in_one_log = options.atomic || group.size() == 1;
    logged = in_one_log ? log_.Reserve(entries, reserve) : log_.ReserveSpread(entries, reserve);
    if (!logged) return false;
    const size_t leaves = group.size() > 1 ? group.size() + 1 : 0;
    return worker.spares.Ensure(spare_source_, leaves, pmem::Reserve::kKeep) || !puts;
  };
  // A lone operation tries again by itself.
  const auto fits = [&] { return enough() ? Outcome::kOk : Outcome::kPoolFull; };
  const Outcome outcome = group.size() == 1 ? fits() : TryToFit(fits);
  return outcome == Outcome::kOk || (!logged && MakeLogRoom(reserve, enough));
}

// Where there is no leaf for each operation: a group of deletes. Only puts that are buffered where
// they go, and have to leave, may need some. These may use the reserve, so that a full pool can be
// emptied.
template <class C>
bool LodgeTree<C>::AdmitGroup(WriteContext& context, std::span<const PendingOp> group) {
  if (context.worker.spares.leaves() > group.size()) [[likely]]
    return true;
  absl::flat_hash_map<const Node*, unsigned> deletes;
  for (const PendingOp& pending : group) ++deletes[context.Covering(pending.key)];
  size_t leaves = 0;
  for (const auto& [node, count] : deletes) {
    const bool fit = node->index_count + node->buf_count + count < parameters_.node_slots;
    if (!fit || node->index_count < crowded_below_) leaves += PendingSplits(node);
  }
  return context.worker.spares.Ensure(spare_source_, leaves, pmem::Reserve::kUse);
}

// Leaves that would split if all that is buffered were drained.
template <class C>
size_t LodgeTree<C>::PendingSplits(const Node* node) const {
  size_t splits = 0;
  for (unsigned leaf = 0; leaf < node->index_count; ++leaf) {
    const uint32_t group = node->GroupMask(leaf);
    splits += group != 0 && Splits(node, {static_cast<uint8_t>(leaf), group}) ? 1 : 0;
  }
  return splits;
}

// Can the operation be buffered, if need be after a flush? Where no leaf is to be had, only what
// needs no leaf split: a put waits for space, a delete goes on as long as splitting its node helps.
// Before it comes to that, in a pool that is nearly full, a put whose leaf has no room for it
// splits the leaf at once. So what is buffered can always be drained; else it would keep its log,
// and its place in the buffer, from those that need no new leaf.
template <class C>
[[gnu::noinline]] bool LodgeTree<C>::AdmitOne(WriteContext& context, const PendingOp& pending) {
  Node* node = context.locked.front();
  const auto position = context.position;
  if (BufferedIndex(node, pending.key, position.hits) >= 0) return true;
  if (!NeedsFlush(node, position.leaf)) {
    if (!pool_.tight() || pending.tombstone || Fits(node, position.leaf, pending.key)) return true;
    context.drains_own = context.worker.spares.Ensure(spare_source_, 1, pmem::Reserve::kKeep);
    return context.drains_own;
  }
  if (!context.plan_ready) ChooseTargets(node, position.leaf, &context.plan);
  context.plan_ready = true;
  const bool strict = pool_.tight() && !pending.tombstone;
  if (strict && !context.plan.Has(position.leaf) && !Fits(node, position.leaf, pending.key)) {
    context.drains_own =
        context.worker.spares.Ensure(spare_source_, context.plan.splits + 1, pmem::Reserve::kKeep);
    return context.drains_own;
  }
  const auto reserve = pending.tombstone ? pmem::Reserve::kUse : pmem::Reserve::kKeep;
  if (context.plan.splits == 0 || context.worker.spares.Ensure(spare_source_, 1, reserve))
    return true;
  return AdmitWithoutLeaf(context, pending);
}

// The plan is cut down to what needs no leaf. Splitting the node makes room for a delete and for a
// put of a key that the leaf has, which have their place there.
template <class C>
bool LodgeTree<C>::AdmitWithoutLeaf(WriteContext& context, const PendingOp& pending) {
  Node* node = context.locked.front();
  const unsigned leaf = context.position.leaf;
  const uint32_t version = node->lock.PublishCount() + 1;
  if (node->full_at == version) {
    context.plan.Clear();
  } else {
    DropSplits(node, &context.plan);
    if (context.plan.count == 0) node->full_at = version;
  }
  const bool has_place = pending.tombstone || FindInLeaf(node, leaf, pending.key) >= 0;
  if (node->index_count < crowded_below_ && Crowded(node, leaf)) {
    // Nothing makes room but its own leaf's flush.
    return context.plan.Has(leaf) && (has_place || Fits(node, leaf, pending.key));
  }
  if (context.plan.count == 0) return has_place && node->index_count > 1;
  return has_place || Fits(node, leaf, pending.key);
}

// --- locks ---

// Searches and chooses what to flush before it takes the lock, so that the lines are on their way
// while it waits; that the lock could be taken proves that nothing had changed.
template <class C>
void LodgeTree<C>::LockOne(WriteContext& context, const Key& key, Seen seen) {
  for (Backoff backoff;; backoff.Pause()) {
    auto [node, snapshot] = std::exchange(seen, {});
    if (node == nullptr) node = tree_.DescendForWrite(key, &snapshot);
    const OptimisticSection section;
    const auto position = node->Search(key);
    context.position = position;
    context.plan_ready = position.hits == 0 && NeedsFlush(node, position.leaf);
    if (context.plan_ready) ChooseTargets(node, position.leaf, &context.plan);
    if (context.plan_ready && context.plan.splits > 0) context.worker.spares.Prefetch(pool_);
    if (node->lock.TryUpgrade(snapshot)) {
      context.locked.push_back(node);
      context.searched = true;
      return;
    }
  }
}

template <class C>
void LodgeTree<C>::SortByKey(std::span<const PendingOp> group, std::span<uint32_t> order) {
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return group[a].op->key < group[b].op->key; });
}

template <class C>
void LodgeTree<C>::LockMany(WriteContext& context, std::span<PendingOp> group) {
  auto& order = context.worker.order;
  order.resize(group.size());
  for (uint32_t i = 0; i < group.size(); ++i) order[i] = i;
  SortByKey(group, order);
  if (medium_.Canary("lodgetree.write.numbers_before_locks")) {
    group[0].sequence = pool_.TakeSequence(group.size() + 1);
  }
  for (const uint32_t i : order) {
    const Key& key = group[i].key;
    if (!context.locked.empty()) {
      const Node* last = context.locked.back();
      if (!last->bounded || C::CompareToKey(last->high, key) > 0) continue;
    }
    LockOne(context, key);
  }
  context.plan_ready = context.searched = false;
}

template <class C>
void LodgeTree<C>::UnlockAll(WriteContext& context) {
  for (Node* node : context.locked) node->lock.Unlock();
  context.locked.clear();
}

// --- conditions ---

template <class C>
int LodgeTree<C>::BufferedIndex(const Node* node, const Key& key, uint32_t hits) const {
  for (; hits != 0; hits &= hits - 1) {
    const int i = std::countr_zero(hits);
    const Pair pair = node->BufferedPair(static_cast<unsigned>(i));
    if (codec_.MayMatch(key, pair) && codec_.Matches(key, pair)) return i;
  }
  return -1;
}

template <class C>
CurrentPair LodgeTree<C>::FindCurrent(const Node* node, const Key& key, uint64_t now) const {
  const auto position = node->Search(key);
  const int at = BufferedIndex(node, key, position.hits);
  if (at >= 0) {
    const auto i = static_cast<unsigned>(at);
    return node->IsTombstone(i) ? CurrentPair{} : values_.Describe(node->values[i], now);
  }
  const int slot = FindInLeaf(node, position.leaf, key);
  if (slot < 0) return {};
  const Pair pair = SlotPair(LeafAt(node, position.leaf), static_cast<unsigned>(slot));
  return values_.Describe(pair.value, now);
}

// Decides whether the operation applies; for a delete, what its tombstone says.
template <class C>
Outcome LodgeTree<C>::Evaluate(const Node* node, PendingOp& pending, uint64_t now) const {
  const WriteOp& op = *pending.op;
  pending.tombstone = op.kind == WriteKind::kDelete;
  pending.apply = true;
  if (!pending.tombstone && op.condition == Condition::kNone) return Outcome::kOk;

  const CurrentPair current = FindCurrent(node, pending.key, now);
  if (!CheckCondition(op, current, pending.result)) {
    pending.apply = false;
    return Outcome::kConditionFailed;
  }
  if (pending.tombstone) {
    if (current.exists && !values_.IsSound(current.value_word)) {
      // Recovery could not tell what its tombstone says.
      pending.apply = false;
      return Outcome::kDataLoss;
    }
    // Nothing to delete needs no tombstone; what has expired is removed all the same. With records
    // the tombstone names its victim, which has the key.
    pending.apply = current.exists;
    pending.staged.pair = {pending.key.word, C::kRecords ? current.value_word : 0};
  }
  return Outcome::kOk;
}

// --- log and buffer ---

// Returns the log that holds the applied index, if one is given.
template <class C>
uint32_t LodgeTree<C>::AppendToLog(std::span<PendingOp> group, const WriteOptions& options) {
  unsigned entries = ExtraEntries(options);
  for (const PendingOp& pending : group) entries += pending.apply ? 1 : 0;
  uint32_t applied_log = PartitionedVersionLog::kNoLog;
  if (entries == 0) return applied_log;
  if (group.size() > 1) log_.PrepareNext(entries, options.atomic);
  const bool early = group.size() > 1 && medium_.Canary("lodgetree.write.numbers_before_locks");
  uint64_t sequence = early ? group[0].sequence : pool_.TakeSequence(entries);
  unsigned left = 0;
  for (PendingOp& pending : group) {
    if (!pending.apply) continue;
    if (left == 0) left = group.size() == 1 ? entries : BeginPart(entries);
    --entries;
    pending.sequence = sequence++;
    const uint32_t record_crc = FinishEntry(pending);
    const auto op = pending.tombstone ? media::LogOp::kDelete : media::LogOp::kPut;
    pending.log = log_.Append(pending.staged.pair, pending.sequence, op, --left, record_crc);
  }
  if (options.applied_index.has_value()) {
    const Pair pair{*options.applied_index, 0};
    applied_log = log_.Append(pair, sequence, media::LogOp::kAppliedIndex, 0, 0);
  }
  EndAppend();
  return applied_log;
}

// How many of so many entries go to the open log, as one fence group: all of an atomic group. Those
// of another may go on in the next log, whose header is durable already.
template <class C>
unsigned LodgeTree<C>::BeginPart(unsigned entries) {
  if (log_.OpenRoom() == 0) (void)log_.Reserve(1, pmem::Reserve::kUse);
  return std::min(entries, log_.OpenRoom());
}

// Completes the operation's record; returns the checksum of the one that its entry names.
template <class C>
uint32_t LodgeTree<C>::FinishEntry(PendingOp& pending) const {
  if constexpr (C::kRecords) {
    if (pending.staged.record.offset != 0) {
      FinishRecord(pool_, pending.staged.record, pending.sequence);
    }
    if (!pending.tombstone && !codec_.inline_pairs()) pending.result->version = pending.sequence;
    if (pending.tombstone && C::IsRecord(pending.staged.pair.value)) {
      return ViewRecord(pool_, C::RecordOf(pending.staged.pair.value)).crc;
    }
  }
  return pending.staged.record.crc;
}

template <class C>
void LodgeTree<C>::EndAppend() {
  LODGEKV_CRASH_POINT(medium_, "lodgetree.log_append.1");
}

template <class C>
void LodgeTree<C>::FenceLog() {
  medium_.Fence();
  LODGEKV_CRASH_POINT(medium_, "lodgetree.log_append.2");
}

template <class C>
void LodgeTree<C>::EnsureFenced(WriteContext& context) {
  if (context.fenced) return;
  FenceLog();
  context.fenced = true;
}

template <class C>
void LodgeTree<C>::Apply(WriteContext& context, PendingOp& pending) {
  Node* node = context.Covering(pending.key);
  auto position = context.searched ? context.position : node->Search(pending.key);
  const int at = BufferedIndex(node, pending.key, position.hits);
  if (at >= 0) {
    EnsureFenced(context);
    Supersede(context, node, static_cast<unsigned>(at), pending);
    return;
  }
  if (NeedsFlush(node, position.leaf)) {
    node = MakeBufferRoom(context, node, pending);
    if (context.stuck) return;
    position = node->Search(pending.key);
  }
  EnsureFenced(context);
  InsertBuffered(node, position.leaf, pending);
  if (!parameters_.surrogate_buffer || context.drains_own) {
    context.plan.Clear();
    (void)AddTarget(node, position.leaf, &context.plan);
    (void)FlushWhereRoom(context, node, pending.key, pending.sequence);
  }
}

template <class C>
void LodgeTree<C>::InsertBuffered(Node* node, unsigned leaf, const PendingOp& pending) {
  node->InsertBuffered(leaf, pending.key, pending.staged.pair, pending.log, pending.tombstone);
  if (C::kRecords || pending.tombstone) NoteHolding(node);
}

// The buffered pair `at` gives way to a newer one of its key.
template <class C>
void LodgeTree<C>::Supersede(WriteContext& context, Node* node, unsigned at, PendingOp& pending) {
  const uint64_t old_value = node->values[at];
  const bool loses = LosesRecord(node, at, pending);
  log_.Release(node->buf_ver[at]);
  node->ReplaceBuffered(at, pending.staged.pair.value, pending.log, pending.tombstone);
  context.worker.counters.Add(WorkerCounters::kSuperseded);
  if (pending.tombstone) with_deletes_.Add(node);
  if (loses) RetireRecord(context.worker, old_value);
}

// Does nothing own the record of the buffered pair `at` any more, once `pending` supersedes it? It
// may be named by the tombstone. Or it may still be that of the leaf's pair, which then owns it:
// the victim of a tombstone, or a pair that was drained before a crash and replayed after it.
template <class C>
bool LodgeTree<C>::LosesRecord(const Node* node, unsigned at, const PendingOp& pending) const {
  if constexpr (C::kRecords) {
    const uint64_t old_value = node->values[at];
    if (old_value == pending.staged.pair.value) return false;
    const int slot = FindInLeaf(node, node->leaf_count[at], pending.key);
    const media::Leaf* leaf = LeafAt(node, node->leaf_count[at]);
    return slot < 0 || SlotPair(leaf, static_cast<unsigned>(slot)).value != old_value;
  }
  return false;
}

// --- after ---

template <class C>
void LodgeTree<C>::RetireRecord(Worker& worker, uint64_t value_word) {
  if constexpr (C::kRecords) {
    if (C::IsRecord(value_word)) worker.retired.Add(slab_, C::RecordOf(value_word));
  }
}

template <class C>
void LodgeTree<C>::FinishWrite(Worker& worker) {
  // Under a tracer space is used again as soon as it may be.
  if (worker.retired.full() || medium_.tracer() != nullptr) worker.retired.HandTo(reclaimer_);
  worker.spares.Trim(spare_source_);
  if (!worker.sparse_nodes.empty()) MergeSparseNodes(worker);
}

template <class C>
void LodgeTree<C>::Discard(PendingOp& pending) {
  DiscardStaged(slab_, &pending.staged);
}

template class LodgeTree<Fixed64Codec>;
template class LodgeTree<BytesCodec>;

}  // namespace lodgekv::lodgetree
