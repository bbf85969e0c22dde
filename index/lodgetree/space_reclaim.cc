// A full pool: what waits in buffers gives its space back when an allocation has failed. And before
// the pool is closed all that is buffered goes to its leaves.
#include <string>

#include "index/lodgetree/lodgetree.h"
#include "index/node/recovery_tasks.h"

namespace lodgekv::lodgetree {

namespace {
constexpr unsigned kNodesAtOnce = 16;
constexpr unsigned kDrainedAtOnce = 4;  // of these
constexpr size_t kRangesPerThread = 8;
}  // namespace

// When an allocation has failed. True: something came free, and it is worth another try. A few
// nodes each time, so that no operation pays for all that others have left behind; and where there
// is nothing to be had, a few loads.
template <class C>
bool LodgeTree<C>::ReclaimSpace() {
  Worker& worker = CurrentWorker();
  bool reclaimed = false;
  if (!with_deletes_.empty() || !with_puts_.empty()) {
    const std::lock_guard lock(reclaim_mutex_);
    reclaimed = DrainHoldingNodes(worker);
  }
  return worker.retired.Drain(reclaimer_) || reclaimed;
}

// Until a few have given something: to free one record costs what it does to free some. Deletes
// first: what they hold back is certain. False: there is none left to look at.
template <class C>
bool LodgeTree<C>::DrainHoldingNodes(Worker& worker) {
  unsigned drained = 0;
  unsigned looked = 0;
  for (; looked < kNodesAtOnce && drained < kDrainedAtOnce; ++looked) {
    if (Node* node = with_deletes_.Take(); node != nullptr) {
      drained += DrainHolding(worker, node, WithDeletes::Taken) ? 1 : 0;
    } else if (node = with_puts_.Take(); node != nullptr) {
      drained += DrainHolding(worker, node, WithPuts::Taken) ? 1 : 0;
    } else {
      break;
    }
  }
  return drained != 0 || looked == kNodesAtOnce;
}

// Drains the leaves of which something buffered gives space back. False: there is none.
template <class C>
bool LodgeTree<C>::DrainHolding(Worker& worker, Node* node, void (*taken)(Node*)) {
  for (Backoff backoff; !node->lock.TryLock();) backoff.Pause();
  WriteContext context(worker);
  context.locked.push_back(node);
  context.fenced = true;
  taken(node);
  ChooseHolding(context, node);
  const bool any = context.plan.count != 0;
  if (any) {
    const std::string low = C::TextOf(node->low());
    (void)FlushPlanned(context, node, C::MakeKey(low), pool_.PeekSequence() - 1);
  }
  UnlockAll(context);
  if (any) ReleaseDrainedLogs(worker);
  MergeSparseNodes(worker);
  return any;
}

// A leaf splits only if one can be had: one of a node at a time.
template <class C>
void LodgeTree<C>::ChooseHolding(WriteContext& context, const Node* node) {
  FlushPlan& plan = context.plan;
  plan.Clear();
  for (unsigned leaf = 0; leaf < node->index_count; ++leaf) {
    const typename FlushPlan::Target target{static_cast<uint8_t>(leaf), node->GroupMask(leaf)};
    if (target.group == 0 || !HoldsSpace(node, target)) continue;
    if (Splits(node, target)) {
      const bool spare =
          plan.splits == 0 && context.worker.spares.Ensure(spare_source_, 1, pmem::Reserve::kKeep);
      if (!spare) continue;
      ++plan.splits;
    }
    plan.targets[plan.count++] = target;
  }
}

// A delete, or a put of a key that the leaf has with another record.
template <class C>
bool LodgeTree<C>::HoldsSpace(const Node* node, const typename FlushPlan::Target& target) const {
  if ((target.group & node->tombstones) != 0) return true;
  if constexpr (!C::kRecords) return false;
  for (uint32_t left = target.group; left != 0; left &= left - 1) {
    const auto i = static_cast<unsigned>(std::countr_zero(left));
    if (FindPairInLeaf(node, target.leaf, node->BufferedPair(i)) >= 0) return true;
  }
  return false;
}

// Of the pairs that are buffered in the locked node.
template <class C>
void LodgeTree<C>::NoteHolding(Node* node) {
  if (node->tombstones != 0) with_deletes_.Add(node);
  if (C::kRecords && node->buf_count != 0) with_puts_.Add(node);
}

// Drains every buffer and merges leaves. On several threads by ranges of nodes: nobody else may be
// at work then.
template <class C>
void LodgeTree<C>::FlushAllBuffers(unsigned threads) {
  // Each thread needs a worker slot of its own: of these nobody has one.
  threads = std::min(threads, pmem::kMaxWorkerSlots - pmem::WorkerSlotsUsed() + 1);
  std::vector<std::string> lows = {C::TextOf(C::MinusInfinity())};
  if (threads > 1) {
    for (const Separator low : tree_.Borders(kRangesPerThread * threads)) {
      lows.push_back(C::TextOf(low));
    }
  }
  (void)RunTasks(lows.size(), threads, [&](size_t i) {
    FlushBuffers(lows[i], i + 1 < lows.size() ? &lows[i + 1] : nullptr);
    return absl::OkStatus();
  });
}

// Of nodes from the one that covers `low` on that begin before `end` (null: all).
template <class C>
void LodgeTree<C>::FlushBuffers(std::string low, const std::string* end) {
  Worker& worker = CurrentWorker();
  for (bool more = true; more;) {
    WriteContext context(worker);
    const Key key = C::MakeKey(low);
    context.fenced = true;
    context.reserve = pmem::Reserve::kKeep;
    LockOne(context, key);
    context.plan_ready = false;
    Node* locked = context.locked.front();
    // Without a spare leaf some pairs have to stay.
    for (unsigned before = kNodeSlots + 1; locked->buf_count > 0 && locked->buf_count < before;) {
      before = locked->buf_count;
      ChooseTargets(locked, 0, &context.plan);
      locked = FlushWhereRoom(context, locked, key, pool_.PeekSequence() - 1);
    }
    MergeSparseLeaves(worker, locked, pool_.PeekSequence() - 1);
    NoteIfSparse(worker, locked);
    // Separators ascend, but for those of keys that were damaged.
    more = GoesOnBehind(locked, key) &&
           (end == nullptr || C::CompareToKey(locked->high, C::MakeKey(*end)) < 0);
    if (more) low = C::TextOf(locked->high);
    UnlockAll(context);
    MergeSparseNodes(worker);
  }
  ReleaseDrainedLogs(worker);
}

template class LodgeTree<Fixed64Codec>;
template class LodgeTree<BytesCodec>;

}  // namespace lodgekv::lodgetree
