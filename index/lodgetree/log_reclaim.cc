#include "index/lodgetree/log_reclaim.h"

#include <algorithm>
#include <string>

#include "index/lodgetree/commit_closer.h"
#include "index/node/optimistic_section.h"

namespace lodgekv::lodgetree {

namespace {
constexpr size_t kOldPairsAtOnce = 256;  // of old logs, drained in one round
constexpr unsigned kEntriesForRoom = 64;
constexpr unsigned kTriesOfDelete = 64;  // where a put tries once
}  // namespace

template <class C>
bool LogReclaimer<C>::NextOldEntry(FoundEntry* entry) {
  return worker_.old_log.entries.Next(parts_.log, entry, [&](uint32_t log) {
    worker_.counters.Add(WorkerCounters::kLogReclaims);
    parts_.applied.LeaveLog(log);
  });
}

template <class C>
bool LogReclaimer<C>::KeyOfOldEntry(const FoundEntry& entry, Key* key) {
  auto& keys = worker_.old_log.keys;
  if constexpr (C::kRecords) keys.resize(kOldPairsAtOnce);
  std::string* text = C::kRecords ? &keys[worker_.old_log.pairs.size()] : nullptr;
  return KeyOfLogEntry(parts_.pool, parts_.slab, parts_.codec, entry, text, key);
}

// Most entries of an old log are dead: that is checked without a lock.
template <class C>
bool LogReclaimer<C>::MayBuffer(const OldPair& pair) const {
  uint64_t snapshot;
  const Node* node = parts_.tree.DescendForWrite(pair.key, &snapshot);
  const OptimisticSection section;
  const auto* end = node->buf_ver + kNodeSlots;
  const auto* begin = end - std::min<unsigned>(node->buf_count, kNodeSlots);
  return std::find(begin, end, pair.log) != end || !node->lock.Validate(snapshot);
}

// Examines up to `entries` entries for pairs that may still be buffered; returns how many are left
// to examine.
template <class C>
unsigned LogReclaimer<C>::GatherOldPairs(unsigned entries) {
  auto& pairs = worker_.old_log.pairs;
  pairs.clear();
  while (entries > 0 && pairs.size() < kOldPairsAtOnce) {
    --entries;
    FoundEntry entry;
    if (!NextOldEntry(&entry)) {
      parts_.log.Forgive();
      return 0;
    }
    OldPair pair;
    pair.log = worker_.old_log.entries.id();
    if (KeyOfOldEntry(entry, &pair.key) && MayBuffer(pair)) pairs.push_back(pair);
  }
  return entries;
}

// Adds the pair to the plan of its node if it is still buffered and not in the plan yet. Other
// nodes need `splits` of the spare leaves.
template <class C>
void LogReclaimer<C>::AddOldPair(const Node* node, const OldPair& pair, size_t splits,
                                 DrainPlan* plan) {
  const auto position = node->Search(pair.key);
  const int at = parts_.access.BufferedIndex(node, pair.key, position.hits);
  if (at < 0 || node->buf_ver[at] != pair.log) return;
  if (plan->Has(position.leaf)) return;
  const DrainPlan before = *plan;
  (void)parts_.planner.AddTarget(node, position.leaf, plan);
  if (plan->splits == before.splits) return;
  // The plan counts possible splits.
  const bool spare =
      worker_.spares.Ensure(parts_.spare_source, splits + 1, pmem::ReservePolicy::kKeep) &&
      (!C::kRecords || worker_.spares.fences() > splits);
  if (!spare && parts_.planner.Splits(node, plan->targets[plan->count - 1])) *plan = before;
}

// Gives each locked node a turn that has leaves to drain. At most one leaf of a node splits, as in
// a single drain. If a split needs a leaf and none is free, the pair and its log stay.
template <class C>
void LogReclaimer<C>::PlanOldPairs(NodeWriter<C>& nodes) {
  worker_.round.Clear();
  worker_.unlinked.clear();
  size_t splits = 0;
  auto pair = worker_.old_log.pairs.begin();
  for (Node* node : nodes.held) {
    NodeTurn<C> turn;
    turn.node = node;
    turn.watermark = parts_.pool.PeekSequence() - 1;
    nodes.plan.Clear();
    for (; pair != worker_.old_log.pairs.end() && node->EndsAfter(pair->key); ++pair) {
      AddOldPair(node, *pair, splits, &nodes.plan);
    }
    turn.leaves = nodes.plan.Leaves();
    splits += nodes.plan.splits;
    if (turn.leaves != 0) worker_.round.turns.push_back(turn);
  }
}

// Drains the leaves of the pairs that are still buffered, under shared fences.
template <class C>
void LogReclaimer<C>::DrainOldPairs() {
  auto& pairs = worker_.old_log.pairs;
  std::sort(pairs.begin(), pairs.end(), [](const OldPair& a, const OldPair& b) {
    if constexpr (C::kRecords) return a.key.text < b.key.text;
    return a.key.word < b.key.word;
  });
  NodeWriter<C> nodes(parts_, worker_);
  for (const OldPair& pair : pairs) {
    if (nodes.held.EndBefore(pair.key)) {
      nodes.Lock(pair.key);
    }
  }
  nodes.ForgetSearch();
  worker_.ReleaseDrainedLogs(parts_.log);
  PlanOldPairs(nodes);
  DrainRound<C> round(parts_, worker_);
  for (NodeTurn<C>& turn : worker_.round.turns) round.StageTurn(turn, {});
  if (!worker_.round.turns.empty()) {
    round.FenceStaged();
    round.CommitAndPublish();
  }
  for (const NodeTurn<C>& turn : worker_.round.turns) {
    round.FinishTurn(turn);
    if (turn.node->index_count < parts_.parameters.MaxIndex()) continue;
    const auto& own = *std::find_if(pairs.begin(), pairs.end(), [&](const OldPair& pair) {
      return nodes.held.Covering(pair.key) == turn.node;
    });
    nodes.Split(turn.node, own.key);
  }
  nodes.held.UnlockAll();
}

template <class C>
void LogReclaimer<C>::EmptyOldLogs(size_t ops) {
  unsigned left = parts_.log.TakeOwed(
      parts_.medium.long_fences() ? std::max<size_t>(ops, parts_.log.owed()) : ops);
  while (left > 0) {
    left = GatherOldPairs(left);
    if (!worker_.old_log.pairs.empty()) DrainOldPairs();
  }
}

template <class C>
bool LogReclaimer<C>::MakeLogRoom(pmem::ReservePolicy policy, absl::FunctionRef<bool()> enough) {
  const uint64_t leaves = parts_.leaves.free_state();
  const bool keep = policy == pmem::ReservePolicy::kKeep;
  if (keep && parts_.logs_stuck.Holds(leaves)) return false;
  for (unsigned i = 0; i < (keep ? 1 : kTriesOfDelete); ++i) {
    (void)GatherOldPairs(kEntriesForRoom);
    if (!worker_.old_log.pairs.empty()) DrainOldPairs();
    CommitCloser<C>(parts_, worker_).CloseNow();
    worker_.ReleaseDrainedLogs(parts_.log);
    if (enough()) return true;
  }
  parts_.logs_stuck.Note(leaves);
  return false;
}

template class LogReclaimer<Fixed64Codec>;
template class LogReclaimer<BytesCodec>;

}  // namespace lodgekv::lodgetree
