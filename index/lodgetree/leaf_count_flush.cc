// The Leaf Count-Based Flush (LodgeTree III-B, Fig. 6) and the crash-consistent merge.
//
// It drains every buffered pair of at most t_node leaves, of which at most one is about to split.
// All of them share two fences; the first is also that of the log entry of the Put that found the
// node full. The flushes of a group of writes, of several nodes, share them as well, and drain more
// leaves where more has to find room (group_flush.cc).
//
//  step                                           after a crash          recovery
//  1  pairs in free slots, new values in place,   old commit word        log replays them
//     new leaf and unused next pointer written
//  2  fence (with the log entry)                  as 1                   as 1
//     (none where nothing was written: deletes of
//     durable entries alone)
//  3  commit words and watermarks, fence          each leaf old or new   replay what is above W
//  5  (strict order: between 2 and 3) commit      each leaf old or new   log replays, with no
//     words fenced, watermarks not yet stored     with the old W         other result
//  6  second commit of leaves that had no room:   first commit only      log replays the rest
//     pairs in slots that 3 freed
//  4  fence; commit words and watermarks, fence   first commit or both   as 6 or 3
//     counts in the log fall, behind the          (DRAM)                 counted anew
//     thread's next lock
//
// New values may be stored in place before the commit: until the watermark is durable the log has
// them. Not so those that a group brings to its leaf itself, whose entries share the first fence.
#include <algorithm>
#include <bit>

#include "index/lodgetree/lodgetree.h"
#include "index/pmem/crash_point.h"
#include "index/pmem/last_words.h"

namespace lodgekv::lodgetree {

// --- when, and which leaves ---

// A group that would not fit into two leaves together with its leaf must be drained before it
// grows.
template <class C>
bool LodgeTree<C>::Crowded(const Node* node, unsigned leaf) const {
  const auto group = static_cast<unsigned>(std::popcount(node->GroupMask(leaf)));
  return node->leaf_count[leaf] + group + 2 > 2 * parameters_.leaf_slots;
}

template <class C>
bool LodgeTree<C>::NeedsFlush(const Node* node, unsigned leaf) const {
  if (unsigned{node->index_count} + node->buf_count >= parameters_.node_slots) return true;
  return node->index_count < crowded_below_ && Crowded(node, leaf);
}

// False: stop grouping.
template <class C>
bool LodgeTree<C>::AddTarget(const Node* node, unsigned leaf, FlushPlan* plan) const {
  const uint32_t group = node->GroupMask(leaf);
  const auto pairs = static_cast<unsigned>(std::popcount(group));
  const bool splits = node->leaf_count[leaf] + pairs > parameters_.t_split;
  // The paper's second stop: a leaf about to split is flushed by itself.
  if (splits && parameters_.split_alone && plan->count > 0) return false;
  if (splits && plan->splits > 0) return true;
  plan->targets[plan->count++] = {static_cast<uint8_t>(leaf), group};
  plan->splits += splits ? 1 : 0;

  __builtin_prefetch(&node->mirrors[leaf], 1, 3);
  const uintptr_t line = LeafAddress(node, leaf);
  for (unsigned i = 0; i < kLeafLines; ++i) {
    __builtin_prefetch(reinterpret_cast<const void*>(line + i * pmem::kLineBytes), 1, 3);
  }
  return !(splits && parameters_.split_alone);
}

// From the oldest pair on, as the paper's traversal; the first stop is t_node. May read a node that
// is changing: then the plan is not used.
template <class C>
void LodgeTree<C>::ChooseTargets(const Node* node, unsigned leaf, FlushPlan* plan) const {
  plan->Clear();
  uint32_t left = node->BufferMask();
  if (node->index_count < crowded_below_ && Crowded(node, leaf)) {
    left &= ~node->GroupMask(leaf);
    if (!AddTarget(node, leaf, plan)) return;
  }
  const unsigned most = parameters_.leaf_count_flush ? parameters_.t_node : kMaxTargets;
  while (left != 0 && plan->count < most) {
    const unsigned oldest = 31 - static_cast<unsigned>(std::countl_zero(left));
    const unsigned target = node->leaf_count[oldest];
    if (target >= kNodeSlots) return;
    left &= ~(node->GroupMask(target) | uint32_t{1} << oldest);
    if (!AddTarget(node, target, plan)) return;
  }
}

// The operation is in the log, so it can be neither refused nor forgotten. AdmitOne, AdmitGroup and
// MakeRoom see to it that this cannot be.
template <class C>
void LodgeTree<C>::DieWithoutLeaf() {
  pmem::LastWords words;
  words.Add("lodgetree: no leaf for an operation that was admitted\n");
  words.Abort();
}

// Flushes until a pair of `pending`'s key can be buffered; returns the node that covers it then.
template <class C>
typename LodgeTree<C>::Node* LodgeTree<C>::MakeBufferRoom(WriteContext& context, Node* node,
                                                          PendingOp& pending) {
  for (;;) {
    const unsigned leaf = node->Search(pending.key).leaf;
    if (!NeedsFlush(node, leaf)) return node;
    if (context.stuck) {
      if (!context.replaying) DieWithoutLeaf();
      return node;
    }
    if (!context.plan_ready) ChooseTargets(node, leaf, &context.plan);
    context.plan_ready = false;
    const uint64_t own = medium_.Canary("lodgetree.flush.own_number") ? 1 : 0;
    node = FlushOrSplit(context, node, pending.key, pending.sequence - 1 + own);
  }
}

// Exactly, where AddTarget takes every buffered pair for a new one.
template <class C>
bool LodgeTree<C>::Splits(const Node* node, const typename FlushPlan::Target& target) const {
  return PairsAfter(node, target, 0) > parameters_.t_split;
}

// Is there room in the leaf for the pair of `key` as well, once all that is buffered is there?
template <class C>
bool LodgeTree<C>::Fits(const Node* node, unsigned leaf, const Key& key) const {
  const typename FlushPlan::Target target{static_cast<uint8_t>(leaf), node->GroupMask(leaf)};
  const auto most = node->leaf_count[leaf] + static_cast<unsigned>(std::popcount(target.group)) + 1;
  if (most <= parameters_.t_split || FindInLeaf(node, leaf, key) >= 0) return true;
  return PairsAfter(node, target, 1) <= parameters_.t_split;
}

// The pairs of a leaf that has been drained, and `more` new ones; 0: nothing is new.
template <class C>
unsigned LodgeTree<C>::PairsAfter(const Node* node, const typename FlushPlan::Target& target,
                                  unsigned more) const {
  unsigned kept = node->leaf_count[target.leaf];
  unsigned fresh = more;
  for (uint32_t left = target.group; left != 0; left &= left - 1) {
    const auto i = static_cast<unsigned>(std::countr_zero(left));
    const bool in_leaf = FindPairInLeaf(node, target.leaf, node->BufferedPair(i)) >= 0;
    if (!in_leaf && !node->IsTombstone(i)) ++fresh;
    if (in_leaf && node->IsTombstone(i)) --kept;
  }
  return fresh > 0 ? kept + fresh : 0;
}

// For want of a leaf: what can be drained without.
template <class C>
void LodgeTree<C>::DropSplits(const Node* node, FlushPlan* plan) const {
  plan->Clear();
  for (unsigned leaf = 0; leaf < node->index_count; ++leaf) {
    const typename FlushPlan::Target target{static_cast<uint8_t>(leaf), node->GroupMask(leaf)};
    if (target.group != 0 && !Splits(node, target)) plan->targets[plan->count++] = target;
  }
}

// Leaves the plan what there are leaves for.
template <class C>
void LodgeTree<C>::FitPlan(WriteContext& context, const Node* node) {
  FlushPlan& plan = context.plan;
  const bool single = node->index_count == 1;
  const size_t needed = single ? 1 : context.kept_leaves + 1;
  const bool may_split = single || !context.replaying;
  // The plan counts splits that may come. Replay asks exactly: the one leaf that is left may be
  // what another thread needs.
  const bool exactly = context.replaying && single;
  const bool sure = plan.splits > 0 && (!exactly || Splits(node, plan.targets.front()));
  if (sure &&
      !(may_split && context.worker.spares.Ensure(spare_source_, needed, context.reserve))) {
    DropSplits(node, &plan);
  }
}

// By the context's plan; a node that then has too many leaves splits.
template <class C>
typename LodgeTree<C>::Node* LodgeTree<C>::FlushPlanned(WriteContext& context, Node* node,
                                                        const Key& key, uint64_t watermark) {
  Flush(context, node, watermark);
  return node->index_count >= MaxIndex() ? SplitNode(context, node, key) : node;
}

// What can be drained; the rest waits.
template <class C>
typename LodgeTree<C>::Node* LodgeTree<C>::FlushWhereRoom(WriteContext& context, Node* node,
                                                          const Key& key, uint64_t watermark) {
  FitPlan(context, node);
  return context.plan.count == 0 ? node : FlushPlanned(context, node, key, watermark);
}

// For an operation that needs room in the buffer. Where no leaf can be had for a leaf split,
// splitting the node makes room without any.
template <class C>
typename LodgeTree<C>::Node* LodgeTree<C>::FlushOrSplit(WriteContext& context, Node* node,
                                                        const Key& key, uint64_t watermark) {
  FitPlan(context, node);
  context.stuck = context.plan.count == 0 && node->index_count == 1;
  if (context.stuck) return node;
  if (context.plan.count == 0) return SplitNode(context, node, key);
  return FlushPlanned(context, node, key, watermark);
}

// --- the flush ---

template <class C>
void LodgeTree<C>::Round::Clear() {
  turns.clear();
  work_count = 0;
  new_leaves.clear();
  fresh.clear();
  planned_ops = planned_leaves = 0;
  staged = false;
}

template <class C>
auto LodgeTree<C>::Round::NextWork() -> LeafWork& {
  if (work_count == works.size()) works.resize(std::max<size_t>(kMaxTargets, 2 * work_count));
  return works[work_count++];
}

// A flush by itself: a round of one turn.
template <class C>
void LodgeTree<C>::Flush(WriteContext& context, Node* node, uint64_t watermark) {
  Worker& worker = context.worker;
  worker.round.Clear();
  worker.unlinked.clear();
  NodeTurn& turn = worker.round.turns.emplace_back();
  turn.node = node;
  turn.watermark = watermark;
  for (unsigned i = 0; i < context.plan.count; ++i) {
    turn.leaves |= uint32_t{1} << context.plan.targets[i].leaf;
  }
  StageTurn(worker, turn, {});
  // Deletes alone stage nothing: the commit words say it all.
  if (!context.fenced || worker.round.staged) FenceRound(context);
  CommitAndPublish(worker);
  RetireUnlinked(worker);
  FinishTurn(worker, turn);
}

// Of `group`: the operations of a round; a lone flush has none.
template <class C>
void LodgeTree<C>::StageTurn(Worker& worker, NodeTurn& turn, std::span<PendingOp> group) {
  const Node* node = turn.node;
  const uint32_t superseded = SendDirect(worker, turn, group);
  turn.first_work = worker.round.work_count;
  for (uint32_t leaves = turn.leaves; leaves != 0; leaves &= leaves - 1) {
    const auto leaf = static_cast<unsigned>(std::countr_zero(leaves));
    LeafWork& work = worker.round.NextWork();
    BeginLeaf(node, leaf, node->GroupMask(leaf), turn.watermark, &work);
    work.first_fresh = static_cast<unsigned>(worker.round.fresh.size());
    turn.drained |= work.group;
    SortIntoLeaf(worker, node, superseded, work);
    SortDirect(worker, turn, group, work);
    StageLeaf(worker, turn, work);
    turn.second_commit |= work.second_commit;
  }
  turn.work_count = worker.round.work_count - turn.first_work;
  for (uint32_t left = turn.drained; left != 0; left &= left - 1) {
    worker.drained_logs.push_back(node->buf_ver[std::countr_zero(left)]);
  }
  turn.removes |= (turn.drained & node->tombstones) != 0;
}

template <class C>
void LodgeTree<C>::FenceRound(WriteContext& context) {
  LODGEKV_CRASH_POINT(medium_, "lodgetree.flush.1");
  medium_.Fence();
  context.fenced = true;
  LODGEKV_CRASH_POINT(medium_, "lodgetree.flush.2");
}

template <class C>
void LodgeTree<C>::RetireUnlinked(Worker& worker) {
  if (medium_.Canary("lodgetree.flush.unlinked_stay")) worker.unlinked.clear();
  for (const uint64_t value_word : worker.unlinked) RetireRecord(worker, value_word);
  worker.unlinked.clear();
}

// When the flush is published, and what else came to the node is in its buffer.
template <class C>
void LodgeTree<C>::FinishTurn(Worker& worker, const NodeTurn& turn) {
  if (turn.removes || turn.node->sparse) MergeSparseLeaves(worker, turn.node, turn.watermark);
  worker.counters.Add(WorkerCounters::kFlushes);
  worker.counters.Add(WorkerCounters::kFlushedLeaves, turn.work_count);
  worker.counters.Add(WorkerCounters::kFlushedPairs,
                      static_cast<uint64_t>(std::popcount(turn.drained)));
}

template <class C>
void LodgeTree<C>::BeginLeaf(const Node* node, unsigned leaf, uint32_t group, uint64_t watermark,
                             LeafWork* work) const {
  const LeafMirror& mirror = node->mirrors[leaf];
  work->leaf = leaf;
  work->media = LeafAt(node, leaf);
  work->group = group;
  work->old_bits = mirror.slots();
  work->use_n = mirror.use_n() != 0;
  work->cleared = work->moved = work->filled = work->updated = work->lines = 0;
  work->flip = work->second_commit = false;
  work->first_fresh = work->fresh_count = work->update_count = 0;
  work->first_new = work->new_count = 0;
  // Never backwards: recovery replays in order of numbers, node by node.
  work->watermark = std::max(watermark, media::WatermarkOf(work->media));
}

// Buffered pairs that something newer of the group supersedes do not come so far.
template <class C>
void LodgeTree<C>::SortIntoLeaf(Worker& worker, const Node* node, uint32_t superseded,
                                LeafWork& work) {
  for (uint32_t left = work.group & ~superseded; left != 0;) {
    const unsigned i = 31 - static_cast<unsigned>(std::countl_zero(left));
    left &= ~(uint32_t{1} << i);
    SortPair(worker, node, node->BufferedPair(i), node->IsTombstone(i), true, work);
  }
}

// What a pair means for the leaf: a new slot, a new value, a cleared bit, or nothing. A value is
// stored in place only where the pair's log entry is durable already: else a crash may leave the
// value and not the entry. There the commit word takes a new slot for the old one.
template <class C>
void LodgeTree<C>::SortPair(Worker& worker, const Node* node, Pair pair, bool tombstone,
                            bool in_place, LeafWork& work) {
  const int slot = FindPairInLeaf(node, work.leaf, pair);
  const uint32_t bit = slot >= 0 ? uint32_t{1} << slot : 0;
  const uint64_t old_value = slot >= 0 ? work.media->slots[slot].value.LoadRelaxed() : pair.value;
  // (Keys of damaged records may be alike: a slot changes once.)
  const bool replaces = old_value != pair.value && ((work.updated | work.cleared) & bit) == 0;
  if (C::kRecords && replaces) worker.unlinked.push_back(old_value);
  if (tombstone) {
    work.cleared |= bit;
    if constexpr (C::kRecords) worker.unlinked.push_back(pair.value);
  } else if (slot < 0 || (replaces && !in_place)) {
    work.cleared |= bit;
    worker.round.fresh.push_back(pair);
    ++work.fresh_count;
  } else if (replaces) {
    work.updated |= bit;
    work.update_slots[work.update_count] = static_cast<uint8_t>(slot);
    work.update_values[work.update_count++] = pair.value;
  }
}

template <class C>
void LodgeTree<C>::StageLeaf(Worker& worker, NodeTurn& turn, LeafWork& work) {
  const uint32_t all_slots = (uint32_t{1} << parameters_.leaf_slots) - 1;
  const auto kept = static_cast<unsigned>(std::popcount(work.old_bits & ~work.cleared));
  if (work.fresh_count > 0 && kept + work.fresh_count > parameters_.t_split) {
    StageLeafSplit(worker, turn, work);
  }
  WriteUpdates(work);
  // A slot that this commit frees is not written before the commit is durable.
  const bool reuse = medium_.Canary("lodgetree.second_commit.reuse_at_once");
  const uint32_t free_slots = all_slots & ~(reuse ? work.NewBits() : work.old_bits);
  work.second_commit = work.fresh_count > static_cast<unsigned>(std::popcount(free_slots));
  if (!work.second_commit) WriteFresh(worker.round.FreshOf(work), work, free_slots);
  if (medium_.Canary("lodgetree.flush.watermark_first")) {
    medium_.Store(work.media->watermark, CheckedWord(work.watermark));
    work.lines |= 1;
  }
  worker.round.staged |= work.lines != 0;
  FlushLines(work);
}

template <class C>
void LodgeTree<C>::WriteUpdates(LeafWork& work) {
  for (unsigned i = 0; i < work.update_count; ++i) {
    const unsigned slot = work.update_slots[i];
    if ((work.moved >> slot & 1) != 0) continue;  // written in the right leaf
    medium_.Store(work.media->slots[slot].value, work.update_values[i]);
    work.lines |= uint32_t{1} << LineOfSlot(slot);
  }
}

// Fills free slots so that few lines are touched: a line that takes all that is left, else the
// emptiest.
template <class C>
void LodgeTree<C>::WriteFresh(std::span<const Pair> fresh, LeafWork& work, uint32_t free_slots) {
  for (size_t next = 0; next < fresh.size();) {
    const size_t need = fresh.size() - next;
    unsigned best_line = 0;
    unsigned best_score = 0;
    for (unsigned line = LineOfSlot(0); line < kLeafLines; ++line) {
      const auto room = static_cast<unsigned>(std::popcount(free_slots & SlotsOfLine(line)));
      const unsigned score = room >= need ? 2 * kLeafSlots - room : room;
      if (room > 0 && score > best_score) {
        best_score = score;
        best_line = line;
      }
    }
    uint32_t slots = free_slots & SlotsOfLine(best_line);
    free_slots &= ~slots;
    work.lines |= uint32_t{1} << best_line;
    for (; slots != 0 && next < fresh.size(); slots &= slots - 1) {
      const auto slot = static_cast<unsigned>(std::countr_zero(slots));
      const Pair pair = fresh[next++];
      medium_.Store(work.media->slots[slot].key, pair.key);
      medium_.Store(work.media->slots[slot].value, pair.value);
      work.fingerprints[slot] = FingerprintOf(codec_.HashOf(pair));
      work.filled |= uint32_t{1} << slot;
    }
  }
  if (medium_.strict_order()) {
    StoreFingerprints(work);
    work.lines |= 1;
  }
}

template <class C>
void LodgeTree<C>::StoreFingerprints(LeafWork& work) {
  for (unsigned word = 0; word < std::size(work.media->fingerprints); ++word) {
    uint32_t slots = work.filled >> (8 * word) & 0xff;
    if (slots == 0) continue;
    uint64_t value = work.media->fingerprints[word].LoadRelaxed();
    for (; slots != 0; slots &= slots - 1) {
      const auto byte = static_cast<unsigned>(std::countr_zero(slots));
      value &= ~(uint64_t{0xff} << (8 * byte));
      value |= uint64_t{work.fingerprints[8 * word + byte]} << (8 * byte);
    }
    medium_.Store(work.media->fingerprints[word], value);
  }
}

template <class C>
void LodgeTree<C>::FlushLines(LeafWork& work) {
  for (uint32_t left = work.lines; left != 0; left &= left - 1) {
    const char* leaf = reinterpret_cast<const char*>(work.media);
    medium_.FlushLine(leaf + std::countr_zero(left) * pmem::kLineBytes);
  }
  work.lines = 0;
}

// --- commit ---

// The leaves of a round, all under the same fences.
//
// Readers wait from BeginPublish to EndPublish, behind the fence that makes it durable what they
// then see. Where that fence is one of the processor, what is published is written while the lines
// are on their way; where it syncs a file, readers do not wait for it. A second commit writes over
// slots in which readers still look: they wait for it.
template <class C>
void LodgeTree<C>::CommitAndPublish(Worker& worker) {
  Round& round = worker.round;
  CommitLeaves(round.Works(), Pass::kFirst);
  const bool ahead = !medium_.long_fences();
  const auto publish = [&](const NodeTurn& turn) {
    turn.node->lock.BeginPublish();
    PublishFlush(round, turn);
  };
  for (const NodeTurn& turn : round.turns) {
    if (ahead && turn.PublishesAtOnce()) publish(turn);
  }
  medium_.Fence();
  LODGEKV_CRASH_POINT(medium_, "lodgetree.flush.3");
  bool second = false;
  for (const NodeTurn& turn : round.turns) {
    second |= turn.second_commit;
    if (!turn.PublishesAtOnce()) continue;
    if (!ahead) publish(turn);
    turn.node->lock.EndPublish();
  }
  if (second) SecondCommits(worker);
}

template <class C>
void LodgeTree<C>::SecondCommits(Worker& worker) {
  Round& round = worker.round;
  const bool readers_go_on = medium_.Canary("lodgetree.second_commit.readers_go_on");
  for (const NodeTurn& turn : round.turns) {
    if (turn.second_commit && !readers_go_on) turn.node->lock.BeginPublish();
  }
  CommitSecond(round);
  for (const NodeTurn& turn : round.turns) {
    if (!turn.second_commit) continue;
    if (readers_go_on) turn.node->lock.BeginPublish();
    PublishFlush(round, turn);
    turn.node->lock.EndPublish();
  }
  for (const LeafWork& work : round.Works()) {
    if (work.second_commit) worker.counters.Add(WorkerCounters::kSecondCommits);
  }
}

// All that changes lies in the leaf's first line: fingerprints, then the commit word, then W. A
// line that may tear needs a fence between the last two.
template <class C>
void LodgeTree<C>::CommitLeaves(std::span<LeafWork> works, Pass pass) {
  const bool second = pass == Pass::kSecond;
  for (LeafWork& work : works) {
    if (!second || work.second_commit) StoreCommit(work, pass);
  }
  if (!medium_.strict_order()) return;
  medium_.Fence();
  LODGEKV_CRASH_POINT(medium_, "lodgetree.flush.5");
  for (LeafWork& work : works) {
    if (work.second_commit != second) continue;
    medium_.Store(work.media->watermark, CheckedWord(work.watermark));
    medium_.FlushLine(work.media);
  }
}

template <class C>
void LodgeTree<C>::StoreCommit(LeafWork& work, Pass pass) {
  const bool strict = medium_.strict_order();
  if (!strict) StoreFingerprints(work);
  if (medium_.Canary("lodgetree.flush.watermark_before_commit")) {
    medium_.Store(work.media->watermark, CheckedWord(work.watermark));
  }
  if (work.flip && medium_.Canary("lodgetree.split.two_words")) {
    const uint64_t with_old_use_n = (work.CommitWord() & kCheckedMask) ^ media::kUseN;
    medium_.Store(work.media->commit, CheckedWord(with_old_use_n));
  }
  if (work.flip && medium_.Canary("lodgetree.split.torn_commit")) {
    constexpr uint64_t kLowHalf = UINT16_MAX;
    const uint64_t old = work.media->commit.Load();
    medium_.Store(work.media->commit, (old & ~kLowHalf) | (work.CommitWord() & kLowHalf));
  }
  medium_.Store(work.media->commit, work.CommitWord());
  if (work.flip && medium_.Canary("lodgetree.split.next_after_commit")) {
    medium_.Store(work.media->next[work.use_n ? 0 : 1], work.next);
  }
  const bool whole = !work.second_commit || pass == Pass::kSecond ||
                     medium_.Canary("lodgetree.second_commit.watermark");
  if (!strict && whole) medium_.Store(work.media->watermark, CheckedWord(work.watermark));
  medium_.FlushLine(work.media);
}

template <class C>
void LodgeTree<C>::CommitSecond(Round& round) {
  const uint32_t all_slots = (uint32_t{1} << parameters_.leaf_slots) - 1;
  for (LeafWork& work : round.Works()) {
    if (!work.second_commit) continue;
    WriteFresh(round.FreshOf(work), work, all_slots & ~work.NewBits());
    FlushLines(work);
  }
  LODGEKV_CRASH_POINT(medium_, "lodgetree.flush.6");
  medium_.Fence();
  LODGEKV_CRASH_POINT(medium_, "lodgetree.flush.4");
  CommitLeaves(round.Works(), Pass::kSecond);
  medium_.Fence();
}

// --- publish ---

template <class C>
void LodgeTree<C>::PublishFlush(Round& round, const NodeTurn& turn) {
  const std::span<const LeafWork> works = round.WorksOf(turn);
  for (const LeafWork& work : works) PublishLeaf(turn.node, work);
  turn.node->DropDrained(turn.drained);
  // From right to left, so that leaves to be split are found where they were.
  for (size_t i = works.size(); i-- > 0;) {
    for (unsigned j = 0; j < works[i].new_count; ++j) {
      turn.node->InsertLeaf(works[i].leaf + 1, round.new_leaves[works[i].first_new + j], codec_);
    }
  }
}

template <class C>
void LodgeTree<C>::PublishLeaf(Node* node, const LeafWork& work) const {
  const uint32_t bits = work.NewBits() | (work.use_n != work.flip ? LeafMirror::kUseN : 0);
  node->SetMirror(work.leaf, bits, work.filled, work.fingerprints);
}

template <class C>
void LodgeTree<C>::ReleaseDrainedLogs(Worker& worker) {
  for (const uint32_t log : worker.drained_logs) log_.Release(log);
  worker.drained_logs.clear();
}

template class LodgeTree<Fixed64Codec>;
template class LodgeTree<BytesCodec>;

}  // namespace lodgekv::lodgetree
