// Keeping the log short: cold pairs that pin old logs are flushed when the live logs come near
// their limit, a few with each write.
#include <algorithm>
#include <string>

#include "index/lodgetree/lodgetree.h"
#include "index/node/epoch.h"
#include "index/node/optimistic_section.h"

namespace lodgekv::lodgetree {

namespace {
constexpr unsigned kLogsAtOnce = 4;      // that were free when they were looked at
constexpr size_t kOldPairsAtOnce = 256;  // of old logs, that one round drains
constexpr unsigned kEntriesForRoom = 64;
constexpr unsigned kTriesOfDelete = 64;  // where a put tries once
}  // namespace

// Called without a lock, behind a write of `ops` operations that has opened logs while live logs
// were near their limit. Looks at as many entries of old logs as it has appended, or twice as many,
// and goes on with the next write where it ended with this one. Where a fence is a sync, the thread
// looks at all that it owes at once, which is once in L puts.
template <class C>
void LodgeTree<C>::EmptyOldLogs(size_t ops) {
  if (medium_.failed()) return;
  Worker& worker = CurrentWorker();
  unsigned left = log_.TakeOwed(medium_.long_fences() ? std::max<size_t>(ops, log_.owed()) : ops);
  while (left > 0) {
    left = GatherOldPairs(worker, left);
    if (!worker.old_pairs.empty()) DrainOldPairs(worker);
  }
  FinishWrite(worker);
}

// Looks at up to `entries` entries, for pairs that may still be buffered; returns how many are left
// to look at.
template <class C>
unsigned LodgeTree<C>::GatherOldPairs(Worker& worker, unsigned entries) {
  auto& pairs = worker.old_pairs;
  pairs.clear();
  while (entries > 0 && pairs.size() < kOldPairsAtOnce) {
    --entries;
    ReadEntry entry;
    if (!NextOldEntry(worker, &entry)) {
      log_.Forgive();
      return 0;
    }
    OldPair pair;
    pair.log = worker.emptied.id;
    if (KeyOfOldEntry(worker, entry, &pair.key) && MayBuffer(pair)) pairs.push_back(pair);
  }
  return entries;
}

// Of the log in hand, or of the one that waits longest. False: there is none.
template <class C>
bool LodgeTree<C>::NextOldEntry(Worker& worker, ReadEntry* entry) {
  auto& old = worker.emptied;
  for (unsigned logs = 0;;) {
    const bool live = old.id != PartitionedVersionLog::kNoLog && log_.IsLive(old);
    while (live && worker.emptied_entries < old.found.entries) {
      if (log_.ReadOld(old, worker.emptied_entries++, entry)) return true;
    }
    if (logs++ == kLogsAtOnce || !log_.NextToEmpty(&old)) return false;
    worker.emptied_entries = 0;
    worker.counters.Add(WorkerCounters::kLogReclaims);
    applied_.LeaveLog(old.id);
  }
}

// Where no log can be had: drains what some entries of old ones have left in buffers, until
// `enough`. A put gives up at once when its like has tried in vain, and no leaf has come free
// since: what waits in the buffers waits for leaves.
template <class C>
bool LodgeTree<C>::MakeLogRoom(pmem::Reserve reserve, absl::FunctionRef<bool()> enough) {
  const uint64_t leaves = leaves_.free_state();
  const bool keep = reserve == pmem::Reserve::kKeep;
  if (keep && logs_stuck_.Holds(leaves)) return false;
  Worker& worker = CurrentWorker();
  for (unsigned i = 0; i < (keep ? 1 : kTriesOfDelete); ++i) {
    (void)GatherOldPairs(worker, kEntriesForRoom);
    if (!worker.old_pairs.empty()) DrainOldPairs(worker);
    ReleaseDrainedLogs(worker);
    if (enough()) return true;
  }
  logs_stuck_.Note(leaves);
  return false;
}

// False: there is no pair, or it is dead and its record another's by now, as the checksum tells.
template <class C>
bool LodgeTree<C>::KeyOfOldEntry(Worker& worker, const ReadEntry& entry, Key* key) {
  if (entry.op == media::LogOp::kAppliedIndex) return false;
  if constexpr (C::kRecords) {
    worker.old_keys.resize(kOldPairsAtOnce);
    std::string& text = worker.old_keys[worker.old_pairs.size()];
    const EpochGuard guard;
    char scratch[8];
    if (C::IsRecord(entry.pair.value)) {
      RecordView view;
      if (!VerifyRecord(pool_, slab_, C::RecordOf(entry.pair.value), &view)) return false;
      if (view.crc != entry.record_crc) return false;
      text.assign(view.key);
    } else {
      text.assign(codec_.KeyText(entry.pair, scratch));
    }
    *key = C::MakeKey(text);
  } else {
    *key = C::KeyOfWord(entry.pair.key);
  }
  return true;
}

// Most entries of an old log are dead: that is seen without a lock.
template <class C>
bool LodgeTree<C>::MayBuffer(const OldPair& pair) const {
  uint64_t snapshot;
  const Node* node = tree_.DescendForWrite(pair.key, &snapshot);
  const OptimisticSection section;
  const auto* end = node->buf_ver + kNodeSlots;
  const auto* begin = end - std::min<unsigned>(node->buf_count, kNodeSlots);
  return std::find(begin, end, pair.log) != end || !node->lock.Validate(snapshot);
}

// Drains the leaves of the pairs that are still buffered, under fences that they share.
template <class C>
void LodgeTree<C>::DrainOldPairs(Worker& worker) {
  auto& pairs = worker.old_pairs;
  std::sort(pairs.begin(), pairs.end(), [](const OldPair& a, const OldPair& b) {
    if constexpr (C::kRecords) return a.key.text < b.key.text;
    return a.key.word < b.key.word;
  });
  WriteContext context(worker);
  for (const OldPair& pair : pairs) {
    if (context.locked.empty() || !Covers(context.locked.back(), pair.key)) {
      LockOne(context, pair.key);
    }
  }
  context.plan_ready = context.searched = false;
  ReleaseDrainedLogs(worker);
  PlanOldPairs(context);
  for (NodeTurn& turn : worker.round.turns) StageTurn(worker, turn, {});
  if (!worker.round.turns.empty()) {
    FenceRound(context);
    CommitAndPublish(worker);
    RetireUnlinked(worker);
  }
  for (const NodeTurn& turn : worker.round.turns) {
    FinishTurn(worker, turn);
    if (turn.node->index_count < MaxIndex()) continue;
    const auto& own = *std::find_if(pairs.begin(), pairs.end(), [&](const OldPair& pair) {
      return context.Covering(pair.key) == turn.node;
    });
    SplitNode(context, turn.node, own.key);
  }
  UnlockAll(context);
}

// Gives each locked node a turn that has leaves to drain. Of a node at most one leaf splits, as in
// a lone flush. Where a split takes a leaf that is not to be had, the pair and its log stay.
template <class C>
void LodgeTree<C>::PlanOldPairs(WriteContext& context) {
  Worker& worker = context.worker;
  worker.round.Clear();
  worker.unlinked.clear();
  size_t splits = 0;
  auto pair = worker.old_pairs.begin();
  for (Node* node : context.locked) {
    NodeTurn turn;
    turn.node = node;
    turn.watermark = pool_.PeekSequence() - 1;
    context.plan.Clear();
    for (; pair != worker.old_pairs.end() && Covers(node, pair->key); ++pair) {
      AddOldPair(context, node, *pair, splits);
    }
    for (unsigned i = 0; i < context.plan.count; ++i) {
      turn.leaves |= uint32_t{1} << context.plan.targets[i].leaf;
    }
    splits += context.plan.splits;
    if (turn.leaves != 0) worker.round.turns.push_back(turn);
  }
}

// To the plan of its node, if it is still buffered and not in the plan yet. Other nodes need
// `splits` of the leaves at hand.
template <class C>
void LodgeTree<C>::AddOldPair(WriteContext& context, const Node* node, const OldPair& pair,
                              size_t splits) {
  FlushPlan& plan = context.plan;
  const auto position = node->Search(pair.key);
  const int at = BufferedIndex(node, pair.key, position.hits);
  if (at < 0 || node->buf_ver[at] != pair.log) return;
  const auto* begin = plan.targets.data();
  const bool planned = std::any_of(
      begin, begin + plan.count, [&](const auto& target) { return target.leaf == position.leaf; });
  if (planned) return;
  const FlushPlan before = plan;
  (void)AddTarget(node, position.leaf, &plan);
  if (plan.splits == before.splits) return;
  // The plan counts splits that may come.
  const bool spare =
      context.worker.spares.Ensure(spare_source_, splits + 1, pmem::Reserve::kKeep) &&
      (!C::kRecords || context.worker.spares.fences() > splits);
  if (!spare && Splits(node, plan.targets[plan.count - 1])) plan = before;
}

template class LodgeTree<Fixed64Codec>;
template class LodgeTree<BytesCodec>;

}  // namespace lodgekv::lodgetree
