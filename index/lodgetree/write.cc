// Write: checks and staging before a group's locks, and the division of operations into groups.
#include <algorithm>

#include "index/lodgetree/group_write.h"
#include "index/lodgetree/lodgetree.h"
#include "index/lodgetree/log_reclaim.h"
#include "index/lodgetree/node_merge.h"
#include "index/lodgetree/space_reclaim.h"
#include "index/node/log_fence.h"
#include "index/node/op_rules.h"
#include "index/node/optimistic_section.h"
#include "index/node/search_form.h"

namespace lodgekv::lodgetree {

namespace {
constexpr size_t kLargestChunk = 256;  // operations of a non-atomic group
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

// Finds the node, and puts the pair into its buffer if that is all there is to do: then the result
// is empty.
template <class C>
template <class Form>
SeenNode<C> LodgeTree<C>::Begin(const WriteOp& op, const Key& key, const WriteOptions& options) {
  SeenNode<C> seen;
  seen.node = parts_.tree.template DescendForWrite<Form>(key, &seen.snapshot);
  if (!C::kRecords && PutIntoBuffer<Form>(op, key, options, seen)) return {};
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
         const WriteOptions* its_options) {
        return tree->Begin<decltype(form)>(*its_op, *its_key, *its_options);
      },
      this, &op, &key, &options);
  if (!C::kRecords && seen.node == nullptr) {
    *result = {parts_.medium.failed() ? Outcome::kMediumFailed : Outcome::kOk, false, 0};
    return result->outcome;
  }
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
                                 SeenNode<C> seen) {
  if (op.kind != WriteKind::kPut || op.condition != Condition::kNone) return false;
  if (options.applied_index.has_value() || !parts_.parameters.surrogate_buffer) return false;
  if (parts_.log.OpenRoom() == 0 || parts_.medium.failed() || parts_.pool.tight()) return false;
  Node* node = seen.node;
  typename Node::Position position;
  {
    const OptimisticSection section;
    position = node->template Search<Form>(key);
    if (position.hits != 0 || parts_.planner.NeedsDrain(node, position.leaf)) return false;
    if (!node->lock.TryUpgrade(seen.snapshot)) return false;
  }
  Worker<C>& worker = parts_.CurrentWorker();
  worker.ReleaseDrainedLogs(parts_.log);
  const Pair pair{key.word, KeyWord(op.value, 0)};
  const uint32_t log = parts_.log.Append(pair, parts_.pool.TakeSequence(1), LogOp::kPut, 0, 0);
  EndAppend(parts_.medium);
  FenceLog(parts_.medium);
  node->InsertBuffered(position.leaf, key, pair, log, false);
  node->lock.Unlock();
  return true;
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
    PendingOp<C> pending;
    if (Prepare(ops[i], &results[i], &pending) == Outcome::kOk) group.push_back(pending);
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
  std::vector<PendingOp<C>> group(ops.size());
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
