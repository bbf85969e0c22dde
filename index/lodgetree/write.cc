// Write: checks and staging before a group's locks, and the division of operations into groups.
#include <algorithm>
#include <bit>

#include "index/lodgetree/group_write.h"
#include "index/lodgetree/lodgetree.h"
#include "index/lodgetree/log_reclaim.h"
#include "index/lodgetree/node_merge.h"
#include "index/lodgetree/space_reclaim.h"
#include "index/node/log_fence.h"
#include "index/node/op_rules.h"
#include "index/node/optimistic_section.h"
#include "index/node/prefetch.h"
#include "index/node/search_form.h"
#include "index/node/seen_keys.h"

namespace lodgekv::lodgetree {

namespace {
constexpr size_t kLargestChunk = 256;  // operations of a non-atomic group

// While the node's first lines are on their way: the search tells which mirror is needed.
template <class Node>
void FetchMirrors(const Node* node) {
  const char* at = reinterpret_cast<const char*>(&node->mirrors);
  for (size_t i = 0; i < sizeof(node->mirrors); i += pmem::kLineBytes) Prefetch(at + i);
}
}  // namespace

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
  // A refused operation has appended nothing.
  if (parts_.log.owed() != 0 && outcome != Outcome::kPoolFull && !parts_.medium.failed())
      [[unlikely]] {
    Worker<C>& worker = parts_.CurrentWorker();
    LogReclaimer<C>(parts_, worker).EmptyOldLogs(ops.size());
    FinishWrite(parts_, worker);
  }
  return outcome;
}

// Finds the node, and puts the pair into its buffer if that is all there is to do: then `result` is
// set, and what is returned is empty.
template <class C>
template <class Form>
SeenNode<C> LodgeTree<C>::Begin(const WriteOp& op, const Key& key, const WriteOptions& options,
                                WriteResult* result) {
  SeenNode<C> seen;
  seen.node = parts_.tree.template DescendForWrite<Form>(key, &seen.snapshot);
  if (PutIntoBuffer<Form>(op, key, options, seen, result)) return {};
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
  if (!C::kRecords && DeleteInBuffer(op, key, seen, result)) return result->outcome;
  FetchCurrent(op, key, seen.node);
  return SpaceReclaimer<C>(parts_, parts_.CurrentWorker()).TryToFit([&] {
    PendingOp<C> pending;
    const Outcome outcome = Stage(op, key, result, &pending);
    return outcome == Outcome::kOk ? WriteGroup({&pending, 1}, options, seen) : outcome;
  });
}

// The fast path of a Put: nothing to decide, room in the log and in the buffer. Does the same as
// WriteGroup in that case. False: nothing was done.
template <class C>
template <class Form>
bool LodgeTree<C>::PutIntoBuffer(const WriteOp& op, const Key& key, const WriteOptions& options,
                                 SeenNode<C> seen, WriteResult* result) {
  if (op.kind != WriteKind::kPut || op.condition != Condition::kNone) return false;
  if (options.applied_index.has_value() || !parts_.parameters.surrogate_buffer) return false;
  if (parts_.log.OpenRoom() == 0 || parts_.medium.failed() || parts_.pool.tight()) return false;
  Node* node = seen.node;
  typename Node::Position position;
  {
    const OptimisticSection section;
    position = node->template Search<Form>(key);
    if (position.hits != 0 || parts_.planner.NeedsDrain(node, position.leaf)) return false;
  }
  StagedPair<C> staged;
  if constexpr (C::kRecords) {
    parts_.longest_key.Note(op.key.size());
    if (StagePair(parts_.pool, parts_.slab, parts_.codec, op, key, &staged) != Outcome::kOk)
      return false;
  }
  if (!node->lock.TryUpgrade(seen.snapshot)) {
    DiscardStaged(parts_.slab, &staged);
    return false;
  }
  // Not before the lock: measured, that makes inserts of such pairs a tenth slower.
  if constexpr (!C::kRecords) staged.pair = {key.word, KeyWord(op.value, 0)};
  const uint64_t version = LogAndBuffer(node, position.leaf, key, &staged, LogOp::kPut);
  *result = {};
  if (parts_.medium.failed()) {
    result->outcome = Outcome::kMediumFailed;
  } else if constexpr (C::kRecords) {
    if (!parts_.codec.inline_pairs()) result->version = version;
  }
  return true;
}

// Logs the pair, makes that durable, and buffers it for `leaf` in the node, which has room. The
// caller holds the node's lock, which is released. Returns the pair's number.
template <class C>
uint64_t LodgeTree<C>::LogAndBuffer(Node* node, unsigned leaf, const Key& key,
                                    StagedPair<C>* staged, LogOp op) {
  parts_.CurrentWorker().ReleaseDrainedLogs(parts_.log);
  if constexpr (C::kRecords) parts_.horizon.BeginTaking();
  const uint64_t sequence = parts_.pool.TakeSequence(1);
  if constexpr (C::kRecords) {
    if (staged->record.offset != 0) FinishRecord(parts_.pool, staged->record, sequence);
  }
  const uint32_t log = parts_.log.Append(staged->pair, sequence, op, 0, staged->record.crc);
  EndAppend(parts_.medium);
  FenceLog(parts_.medium);
  if constexpr (C::kRecords) parts_.horizon.EndTaking();
  const bool tombstone = op == LogOp::kDelete;
  node->InsertBuffered(leaf, key, staged->pair, log, tombstone);
  if (C::kRecords || tombstone) parts_.holders.Note(node);
  node->lock.Unlock();
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

// The fast path of a Delete of a key that is not buffered, of pairs without records: its leaf is
// read before the lock, which proves what was found there, so that its cache misses overlap with
// the previous fence. Does the same as WriteGroup in that case. False: nothing was done.
template <class C>
bool LodgeTree<C>::DeleteInBuffer(const WriteOp& op, const Key& key, SeenNode<C> seen,
                                  WriteResult* result) {
  if (op.kind != WriteKind::kDelete || op.condition != Condition::kNone) return false;
  if (!parts_.parameters.surrogate_buffer || parts_.log.OpenRoom() == 0) return false;
  if (parts_.medium.failed() || parts_.pool.tight()) return false;
  Node* node = seen.node;
  FetchMirrors(node);
  typename Node::Position position;
  {
    const OptimisticSection section;
    position = node->Search(key);
    bool has;
    if (!HasInLeaf(node, position.leaf, key, seen.snapshot, &has)) return false;
    if (position.hits != 0 || parts_.planner.NeedsDrain(node, position.leaf)) return false;
    // A leaf that may be emptied is drained at once.
    const auto deleted = static_cast<unsigned>(std::popcount(node->GroupMask(position.leaf))) + 1;
    if (has && deleted >= node->leaf_count[position.leaf]) return false;
    if (has ? !node->lock.TryUpgrade(seen.snapshot) : !node->lock.Validate(seen.snapshot))
      return false;
    *result = {Outcome::kOk, has, 0};
    if (!has) return true;
  }
  StagedPair<C> staged{.pair = {key.word, 0}};
  LogAndBuffer(node, position.leaf, key, &staged, LogOp::kDelete);
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

// Of the operations in the window the first of each key share a fence. The later ones stay there,
// in order: each is evaluated when the earlier ones on its key are done.
template <class C>
void LodgeTree<C>::TakeChunk(std::span<const WriteOp> ops, Worker<C>& worker) {
  auto& [chunk, window, pending] = worker.chunks;
  const bool overtakes = parts_.medium.Canary("lodgetree.group.overtakes");
  if (overtakes) std::ranges::reverse(window);
  SeenKeys seen(window.size());
  chunk.clear();
  size_t waiting = 0;
  for (const uint32_t i : window) {
    const std::string_view key = ops[i].key;
    const auto same = [&](size_t j) { return ops[chunk[j]].key == key; };
    // By the whole key: keys of a group often have their first bytes in common.
    if (seen.Add(C::MakeKey(key).hash, chunk.size(), same) == SeenKeys::kNone) {
      chunk.push_back(i);
    } else {
      window[waiting++] = i;
    }
  }
  window.resize(waiting);
  if (overtakes) std::ranges::reverse(window);
  if (chunk.size() == 1 ||
      worker.spares.Ensure(parts_.spare_source, chunk.size() + 1, pmem::ReservePolicy::kKeep))
    return;
  // In a nearly full pool each operation is tried alone.
  window.insert(window.end(), chunk.begin(), chunk.end());
  std::ranges::sort(window);
  chunk.assign(1, window.front());
  window.erase(window.begin());
}

template <class C>
void LodgeTree<C>::WriteChunk(std::span<const WriteOp> ops, std::span<WriteResult> results,
                              const WriteOptions& options, Worker<C>& worker) {
  const auto& chunk = worker.chunks.chunk;
  if (chunk.size() == 1) {
    (void)WriteOne(ops[chunk[0]], &results[chunk[0]], options);
    return;
  }
  auto& group = worker.chunks.pending;
  group.clear();
  for (const uint32_t i : chunk) {
    if (Prepare(ops[i], &results[i], &group.emplace_back()) != Outcome::kOk) group.pop_back();
  }
  if (!group.empty()) (void)WriteGroup({group.data(), group.size()}, options);
}

template <class C>
Outcome LodgeTree<C>::WriteChunks(std::span<const WriteOp> ops, std::span<WriteResult> results,
                                  const WriteOptions& options) {
  Worker<C>& worker = parts_.CurrentWorker();
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

// Applies nothing of the group; operations without an outcome get kAborted.
template <class C>
Outcome LodgeTree<C>::AbortAll(std::span<PendingOp<C>> group, std::span<WriteResult> results) {
  for (PendingOp<C>& pending : group) DiscardStaged(parts_.slab, &pending.staged);
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
  auto& group = parts_.CurrentWorker().chunks.pending;
  group.clear();
  group.resize(ops.size());
  for (size_t i = 0; i < ops.size(); ++i) group[i].key = C::MakeKey(ops[i].key);
  const size_t repeated = FirstRepeated(
      ops.size(), [&](size_t i) { return group[i].key.hash; },
      [&](size_t i) { return ops[i].key; });
  bool failed = false;
  for (size_t i = 0; i < ops.size() && !failed; ++i) {
    if (i == repeated) results[i].outcome = Outcome::kInvalidArgument;
    failed = i == repeated || Prepare(ops[i], &results[i], &group[i]) != Outcome::kOk;
  }
  const size_t entries = ops.size() + (options.applied_index.has_value() ? 1 : 0);
  if (!failed && entries > parts_.log.largest_group()) {
    for (WriteResult& result : results) result.outcome = Outcome::kPoolFull;
    failed = true;
  }
  if (failed) return AbortAll(group, results);
  const Outcome outcome = WriteGroup(group, options);
  return outcome == Outcome::kOk ? outcome : AbortAll({}, results);
}

template <class C>
Outcome LodgeTree<C>::Prepare(const WriteOp& op, WriteResult* result, PendingOp<C>* pending) {
  const Outcome format = CheckFormat(op, parts_.codec);
  if (format == Outcome::kOk) {
    return SpaceReclaimer<C>(parts_, parts_.CurrentWorker()).TryToFit([&] {
      return Stage(op, C::MakeKey(op.key), result, pending);
    });
  }
  *result = {format, false, 0};
  return format;
}

template <class C>
Outcome LodgeTree<C>::Stage(const WriteOp& op, const Key& key, WriteResult* result,
                            PendingOp<C>* pending) {
  *result = {};
  pending->op = &op;
  pending->result = result;
  pending->key = key;
  if (C::kRecords && op.kind == WriteKind::kPut) parts_.longest_key.Note(op.key.size());
  if (op.kind == WriteKind::kPut) {
    result->outcome = StagePair(parts_.pool, parts_.slab, parts_.codec, op, key, &pending->staged);
  }
  return result->outcome;
}

template class LodgeTree<Fixed64Codec>;
template class LodgeTree<BytesCodec>;

}  // namespace lodgekv::lodgetree
