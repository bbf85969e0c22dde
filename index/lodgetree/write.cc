// Write: one operation alone (write_one.cc), groups of those that share fences, atomic batches.
#include <algorithm>
#include <utility>

#include "index/lodgetree/group_write.h"
#include "index/lodgetree/lodgetree.h"
#include "index/lodgetree/log_reclaim.h"
#include "index/lodgetree/node_merge.h"
#include "index/lodgetree/space_reclaim.h"
#include "index/node/op_rules.h"
#include "index/node/seen_keys.h"

namespace lodgekv::lodgetree {

namespace {
constexpr size_t kLargestChunk = 256;  // operations of a non-atomic group
}

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

// Of the operations in the window the first of each key form a chunk, which shares fences. The
// later ones stay there, in order: each is evaluated when the earlier ones on its key are done.
template <class C>
void LodgeTree<C>::TakeChunk(std::span<const WriteOp> ops, std::span<WriteResult> results,
                             Chunks<C>& chunks) {
  auto& [window, chunk] = chunks;
  const bool overtakes = parts_.medium.Canary("lodgetree.group.overtakes");
  if (overtakes) std::ranges::reverse(window);
  SeenKeys seen(window.size());
  chunk.clear();
  size_t waiting = 0;
  for (const uint32_t i : window) {
    const Key key = C::MakeKey(ops[i].key);
    const auto same = [&](size_t j) { return chunk[j].op->key == ops[i].key; };
    // By the whole key: keys of a group often have their first bytes in common.
    if (seen.Add(key.hash, chunk.size(), same) == SeenKeys::kNone) {
      chunk.emplace_back().Begin(ops[i], key, &results[i]);
    } else {
      window[waiting++] = i;
    }
  }
  window.resize(waiting);
  if (overtakes) std::ranges::reverse(window);
}

// In a nearly full pool each operation is tried alone: puts all but the first one back.
template <class C>
void LodgeTree<C>::ShrinkChunk(std::span<const WriteOp> ops, Chunks<C>& chunks) {
  auto& [window, chunk] = chunks;
  for (const PendingOp<C>& pending : chunk) {
    window.push_back(static_cast<uint32_t>(pending.op - ops.data()));
  }
  std::ranges::sort(window);
  const auto first = std::ranges::find(chunk, &ops[window.front()], &PendingOp<C>::op);
  std::swap(chunk.front(), *first);
  chunk.resize(1);
  window.erase(window.begin());
}

template <class C>
void LodgeTree<C>::WriteChunk(const WriteOptions& options, std::vector<PendingOp<C>>& chunk) {
  if (chunk.size() == 1) {
    (void)WriteOne(*chunk[0].op, chunk[0].result, options);
    return;
  }
  std::erase_if(chunk, [this](PendingOp<C>& pending) { return Prepare(&pending) != Outcome::kOk; });
  if (!chunk.empty()) (void)WriteGroup({chunk.data(), chunk.size()}, options);
}

template <class C>
Outcome LodgeTree<C>::WriteChunks(std::span<const WriteOp> ops, std::span<WriteResult> results,
                                  const WriteOptions& options) {
  Worker<C>& worker = parts_.CurrentWorker();
  auto& [window, chunk] = worker.chunks;
  window.clear();
  for (uint32_t next = 0; next < ops.size() || !window.empty();) {
    while (next < ops.size() && window.size() < kLargestChunk) window.push_back(next++);
    TakeChunk(ops, results, worker.chunks);
    if (chunk.size() > 1 && !worker.spares.Ensure(parts_.spare_source, chunk.size() + 1,
                                                  pmem::ReservePolicy::kKeep))
      ShrinkChunk(ops, worker.chunks);
    WriteChunk(options, chunk);
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
  auto& group = parts_.CurrentWorker().chunks.pending;
  group.clear();
  group.resize(ops.size());
  for (size_t i = 0; i < ops.size(); ++i) {
    group[i].Begin(ops[i], C::MakeKey(ops[i].key), &results[i]);
  }
  const size_t repeated = FirstRepeated(
      ops.size(), [&](size_t i) { return group[i].key.hash; },
      [&](size_t i) { return ops[i].key; });
  bool failed = false;
  for (size_t i = 0; i < ops.size() && !failed; ++i) {
    if (i == repeated) results[i].outcome = Outcome::kInvalidArgument;
    failed = i == repeated || Prepare(&group[i]) != Outcome::kOk;
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

// Checks and stages an operation that has begun. Its result has the outcome, too.
template <class C>
Outcome LodgeTree<C>::Prepare(PendingOp<C>* pending) {
  Outcome& outcome = pending->result->outcome;
  outcome = CheckFormat(*pending->op, parts_.codec);
  if (outcome != Outcome::kOk || Stage(pending) != Outcome::kPoolFull) return outcome;
  return SpaceReclaimer<C>(parts_, parts_.CurrentWorker()).TryToFit([&] { return Stage(pending); });
}

template class LodgeTree<Fixed64Codec>;
template class LodgeTree<BytesCodec>;

}  // namespace lodgekv::lodgetree
