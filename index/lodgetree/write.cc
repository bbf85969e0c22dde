// Write: one operation alone (write_one.cc), groups of those that share fences, atomic batches.
#include <algorithm>
#include <utility>

#include "index/lodgetree/group_write.h"
#include "index/lodgetree/lodgetree.h"
#include "index/lodgetree/space_reclaim.h"
#include "index/node/op_rules.h"

namespace lodgekv::lodgetree {

namespace {
constexpr size_t kLargestChunk = 256;  // operations of a non-atomic group
}

template <class C>
Outcome LodgeTree<C>::Write(std::span<const WriteOp> ops, std::span<WriteResult> results,
                            const WriteOptions& options) {
  // Atomic or not, with an applied index or without.
  if (ops.size() == 1) [[likely]]
    return WriteOne(ops[0], &results[0], options);
  const Outcome outcome =
      options.atomic ? WriteAtomic(ops, results, options) : WriteChunks(ops, results, options);
  if (parts_.log.owed() != 0) [[unlikely]]
    PayLogs(ops.size(), outcome);
  return outcome;
}

// Of the operations in the window the first of each key form a chunk, which shares fences. The
// later ones stay there: each is evaluated when the earlier ones on its key are done.
template <class C>
void LodgeTree<C>::TakeChunk(const KeyOrder<C>& order, std::span<const WriteOp> ops,
                             std::span<WriteResult> results, Chunks<C>& chunks) {
  auto& [window, chunk] = chunks;
  order.Sort(window, parts_.medium.Canary("lodgetree.group.overtakes"));
  chunk.clear();
  size_t waiting = 0;
  auto first = window.front();  // of the key
  for (const auto& place : window) {
    if (!chunk.empty() && order.SameKey(first, place)) [[unlikely]] {
      window[waiting++] = place;
      continue;
    }
    first = place;
    chunk.emplace_back().Begin(ops[place.op], order.KeyOf(place), &results[place.op]);
  }
  window.resize(waiting);
}

// In a nearly full pool each operation is tried alone: puts all but the first one of the call back.
template <class C>
void LodgeTree<C>::ShrinkChunk(std::span<const WriteOp> ops, Chunks<C>& chunks) {
  auto& [window, chunk] = chunks;
  const auto first = std::ranges::min_element(chunk, {}, &PendingOp<C>::op);
  std::swap(chunk.front(), *first);
  for (size_t i = 1; i < chunk.size(); ++i) {
    const PendingOp<C>& back = chunk[i];
    window.push_back({back.key.word, static_cast<uint32_t>(back.op - ops.data()), back.key.hash});
  }
  chunk.resize(1);
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
  const KeyOrder<C> order(ops);
  window.clear();
  for (uint32_t next = 0; next < ops.size() || !window.empty();) {
    while (next < ops.size() && window.size() < kLargestChunk) {
      window.push_back(order.PlaceOf(next++));
    }
    TakeChunk(order, ops, results, worker.chunks);
    if (chunk.size() > 1 &&
        !worker.spares.Ensure(parts_.spare_source, chunk.size() + 1, pmem::ReservePolicy::kKeep))
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
  auto& [places, group] = parts_.CurrentWorker().chunks;
  const KeyOrder<C> order(ops);
  places.clear();
  for (uint32_t i = 0; i < ops.size(); ++i) places.push_back(order.PlaceOf(i));
  order.Sort(places);
  group.clear();
  for (const auto& place : places) {
    group.emplace_back().Begin(ops[place.op], order.KeyOf(place), &results[place.op]);
  }
  const size_t repeated = order.FirstRepeated(places);
  bool failed = false;
  for (size_t i = 0; i < ops.size() && !failed; ++i) {
    Outcome& outcome = results[i].outcome;
    outcome = i == repeated ? Outcome::kInvalidArgument : CheckFormat(ops[i], parts_.codec);
    failed = outcome != Outcome::kOk;
  }
  for (size_t i = 0; i < group.size() && !failed; ++i) {
    failed = StageWithRoom(&group[i]) != Outcome::kOk;
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

// Stages an operation that has begun, once space was reclaimed if necessary. Its result has the
// outcome, too.
template <class C>
Outcome LodgeTree<C>::StageWithRoom(PendingOp<C>* pending) {
  const Outcome outcome = Stage(pending);
  if (outcome != Outcome::kPoolFull) [[likely]]
    return outcome;
  return SpaceReclaimer<C>(parts_, parts_.CurrentWorker()).TryToFit([&] { return Stage(pending); });
}

// Checks and stages it.
template <class C>
Outcome LodgeTree<C>::Prepare(PendingOp<C>* pending) {
  Outcome& outcome = pending->result->outcome;
  outcome = CheckFormat(*pending->op, parts_.codec);
  return outcome == Outcome::kOk ? StageWithRoom(pending) : outcome;
}

template class LodgeTree<Fixed64Codec>;
template class LodgeTree<BytesCodec>;

}  // namespace lodgekv::lodgetree
