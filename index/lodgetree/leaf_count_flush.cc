// The Leaf Count-Based Flush (LodgeTree III-B, Fig. 6) and the crash-consistent merge.
//
// It drains every buffered pair of at most t_node leaves, of which at most one is about to split.
// All of them share two fences; the first is also that of the log entry of the Put that found the
// node full.
//
//  step                                           after a crash          recovery
//  1  pairs in free slots, new values in place,   old commit word        log replays them
//     new leaf and unused next pointer written
//  2  fence (with the log entry)                  as 1                   as 1
//  3  commit words and watermarks, fence          each leaf old or new   replay what is above W
//  4  second commit of a leaf that had no room:   first commit only      log replays the rest
//     pairs in slots that 3 freed, fence, word, fence
//  5  (strict order: between 2 and 3) commit      each leaf old or new   log replays, with no
//     words fenced, watermarks not yet stored     with the old W         other result
//  6  counts in the log fall, behind the          (DRAM)                 counted anew
//     thread's next lock
//
// New values may be stored in place before the commit: until the watermark is durable the log has
// them.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>

#include "index/lodgetree/lodgetree.h"
#include "index/pmem/crash_point.h"

namespace lodgekv::lodgetree {

namespace {

// The operation is in the log, so it can be neither refused nor forgotten. AdmitOne, AdmitGroup and
// MakeRoom see to it that this cannot be.
[[noreturn]] void DieWithoutLeaf() {
  std::fputs("lodgetree: no leaf for an operation that was admitted\n", stderr);
  std::abort();
}

}  // namespace

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
  unsigned kept = node->leaf_count[target.leaf];
  unsigned fresh = 0;
  for (uint32_t left = target.group; left != 0; left &= left - 1) {
    const auto i = static_cast<unsigned>(std::countr_zero(left));
    const bool in_leaf = FindPairInLeaf(node, target.leaf, node->BufferedPair(i)) >= 0;
    if (!in_leaf && !node->IsTombstone(i)) ++fresh;
    if (in_leaf && node->IsTombstone(i)) --kept;
  }
  return fresh > 0 && kept + fresh > parameters_.t_split;
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

// Flushes by the context's plan; a node that then has too many leaves splits. Where no leaf can be
// had for a leaf split, splitting the node makes room without any.
template <class C>
typename LodgeTree<C>::Node* LodgeTree<C>::FlushOrSplit(WriteContext& context, Node* node,
                                                        const Key& key, uint64_t watermark) {
  FlushPlan& plan = context.plan;
  const bool single = node->index_count == 1;
  const size_t needed = single ? 1 : context.kept_leaves + 1;
  const bool may_split = single || !context.replaying;
  // The plan counts splits that may come. Replay asks exactly: the one leaf that is left may be
  // what another thread needs.
  const bool exactly = context.replaying && single;
  const bool sure = plan.splits > 0 && (!exactly || Splits(node, plan.targets.front()));
  if (sure && !(may_split && EnsureSpares(context.worker, needed, context.reserve))) {
    DropSplits(node, &plan);
  }
  context.stuck = plan.count == 0 && single;
  if (context.stuck) return node;
  if (plan.count == 0) return SplitNode(context, node, key);
  Flush(context, node, watermark);
  return node->index_count >= MaxIndex() ? SplitNode(context, node, key) : node;
}

// --- the flush ---

template <class C>
void LodgeTree<C>::Flush(WriteContext& context, Node* node, uint64_t watermark) {
  Worker& worker = context.worker;
  const FlushPlan& plan = context.plan;
  const std::span<LeafWork> works(worker.works.data(), plan.count);
  worker.unlinked.clear();
  uint32_t drained = 0;
  for (unsigned i = 0; i < plan.count; ++i) {
    BeginLeaf(node, plan.targets[i], watermark, &works[i]);
    drained |= plan.targets[i].group;
    SortIntoLeaf(worker, node, works[i]);
    StageLeaf(worker, node, works[i]);
  }
  LODGEKV_CRASH_POINT(medium_, "lodgetree.flush.1");
  medium_.Fence();
  context.fenced = true;
  LODGEKV_CRASH_POINT(medium_, "lodgetree.flush.2");
  for (uint32_t left = drained; left != 0; left &= left - 1) {
    worker.drained_logs.push_back(node->buf_ver[std::countr_zero(left)]);
  }
  const uint32_t deletes = drained & node->tombstones;
  CommitAndPublish(worker, node, works, drained);

  if (medium_.Canary("lodgetree.flush.unlinked_stay")) worker.unlinked.clear();
  for (const uint64_t value_word : worker.unlinked) RetireRecord(worker, value_word);
  if (deletes != 0) {
    buffered_deletes_.fetch_sub(static_cast<uint64_t>(std::popcount(deletes)),
                                std::memory_order_relaxed);
  }
  if (deletes != 0 || node->sparse) MergeSparseLeaves(worker, node, watermark);
  worker.counters.Add(WorkerCounters::kFlushes);
  worker.counters.Add(WorkerCounters::kFlushedLeaves, plan.count);
  worker.counters.Add(WorkerCounters::kFlushedPairs, static_cast<uint64_t>(std::popcount(drained)));
}

template <class C>
void LodgeTree<C>::BeginLeaf(const Node* node, const typename FlushPlan::Target& target,
                             uint64_t watermark, LeafWork* work) const {
  const LeafMirror& mirror = node->mirrors[target.leaf];
  work->leaf = target.leaf;
  work->media = LeafAt(node, target.leaf);
  work->group = target.group;
  work->old_bits = mirror.slots();
  work->use_n = mirror.use_n() != 0;
  work->cleared = work->moved = work->filled = work->lines = 0;
  work->flip = work->second_commit = false;
  work->fresh_count = work->update_count = 0;
  // Never backwards: recovery replays in order of numbers, node by node.
  work->watermark = std::max(watermark, media::WatermarkOf(work->media));
  work->right = 0;
}

// What each pair of the group means for the leaf: a new slot, a new value, a cleared bit, or
// nothing.
template <class C>
void LodgeTree<C>::SortIntoLeaf(Worker& worker, const Node* node, LeafWork& work) {
  for (uint32_t left = work.group; left != 0;) {
    const unsigned i = 31 - static_cast<unsigned>(std::countl_zero(left));
    left &= ~(uint32_t{1} << i);
    const Pair pair = node->BufferedPair(i);
    const int slot = FindPairInLeaf(node, work.leaf, pair);
    const uint64_t old_value = slot >= 0 ? work.media->slots[slot].value.LoadRelaxed() : pair.value;
    if (node->IsTombstone(i)) {
      if (slot >= 0) work.cleared |= uint32_t{1} << slot;
      if constexpr (C::kRecords) {
        worker.unlinked.push_back(pair.value);
        if (old_value != pair.value) worker.unlinked.push_back(old_value);
      }
    } else if (slot < 0) {
      work.fresh[work.fresh_count++] = pair;
    } else if (old_value != pair.value) {
      work.update_slots[work.update_count] = static_cast<uint8_t>(slot);
      work.update_values[work.update_count++] = pair.value;
      if constexpr (C::kRecords) worker.unlinked.push_back(old_value);
    }
  }
}

template <class C>
void LodgeTree<C>::StageLeaf(Worker& worker, const Node* node, LeafWork& work) {
  const uint32_t all_slots = (uint32_t{1} << parameters_.leaf_slots) - 1;
  const auto kept = static_cast<unsigned>(std::popcount(work.old_bits & ~work.cleared));
  if (work.fresh_count > 0 && kept + work.fresh_count > parameters_.t_split) {
    StageLeafSplit(worker, node, work);
  }
  WriteUpdates(work);
  // A slot that this commit frees is not written before the commit is durable.
  const bool reuse = medium_.Canary("lodgetree.second_commit.reuse_at_once");
  const uint32_t free_slots = all_slots & ~(reuse ? work.NewBits() : work.old_bits);
  work.second_commit = work.fresh_count > static_cast<unsigned>(std::popcount(free_slots));
  if (!work.second_commit) WriteFresh(work, free_slots);
  if (medium_.Canary("lodgetree.flush.watermark_first")) {
    medium_.Store(work.media->watermark, CheckedWord(work.watermark));
    work.lines |= 1;
  }
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
void LodgeTree<C>::WriteFresh(LeafWork& work, uint32_t free_slots) {
  for (unsigned next = 0; next < work.fresh_count;) {
    const unsigned need = work.fresh_count - next;
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
    for (; slots != 0 && next < work.fresh_count; slots &= slots - 1) {
      const auto slot = static_cast<unsigned>(std::countr_zero(slots));
      const Pair pair = work.fresh[next++];
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

// Readers wait from BeginPublish to EndPublish, behind the fence that makes it durable what they
// then see. Where that fence is one of the processor, what is published is written while the lines
// are on their way; where it syncs a file, readers do not wait for it. A second commit writes over
// slots in which readers still look: they wait for it.
template <class C>
void LodgeTree<C>::CommitAndPublish(Worker& worker, Node* node, std::span<LeafWork> works,
                                    uint32_t drained) {
  CommitLeaves(works);
  const bool once = std::none_of(works.begin(), works.end(),
                                 [](const LeafWork& work) { return work.second_commit; });
  const bool ahead = once && !medium_.long_fences();
  if (ahead) {
    node->lock.BeginPublish();
    PublishFlush(node, works, drained);
  }
  medium_.Fence();
  LODGEKV_CRASH_POINT(medium_, "lodgetree.flush.3");
  if (!ahead) {
    node->lock.BeginPublish();
    for (LeafWork& work : works) {
      if (work.second_commit) SecondCommit(worker, node, work);
    }
    PublishFlush(node, works, drained);
  }
  node->lock.EndPublish();
}

template <class C>
void LodgeTree<C>::SecondCommit(Worker& worker, Node* node, LeafWork& work) {
  const bool readers_go_on = medium_.Canary("lodgetree.second_commit.readers_go_on");
  if (readers_go_on) node->lock.EndPublish();
  CommitSecond(work);
  if (readers_go_on) node->lock.BeginPublish();
  worker.counters.Add(WorkerCounters::kSecondCommits);
}

// All that changes lies in the leaf's first line: fingerprints, then the commit word, then W. A
// line that may tear needs a fence between the last two.
template <class C>
void LodgeTree<C>::CommitLeaves(std::span<LeafWork> works) {
  const bool strict = medium_.strict_order();
  for (LeafWork& work : works) {
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
      medium_.Store(work.media->next[work.use_n ? 0 : 1], CheckedWord(work.right));
    }
    const bool whole = !work.second_commit || medium_.Canary("lodgetree.second_commit.watermark");
    if (!strict && whole) medium_.Store(work.media->watermark, CheckedWord(work.watermark));
    medium_.FlushLine(work.media);
  }
  if (!strict) return;
  medium_.Fence();
  LODGEKV_CRASH_POINT(medium_, "lodgetree.flush.5");
  for (LeafWork& work : works) {
    if (work.second_commit) continue;
    medium_.Store(work.media->watermark, CheckedWord(work.watermark));
    medium_.FlushLine(work.media);
  }
}

template <class C>
void LodgeTree<C>::CommitSecond(LeafWork& work) {
  const uint32_t all_slots = (uint32_t{1} << parameters_.leaf_slots) - 1;
  WriteFresh(work, all_slots & ~work.NewBits());
  FlushLines(work);
  LODGEKV_CRASH_POINT(medium_, "lodgetree.flush.6");
  medium_.Fence();
  LODGEKV_CRASH_POINT(medium_, "lodgetree.flush.4");
  work.second_commit = false;
  CommitLeaves({&work, 1});
  medium_.Fence();
}

// --- publish ---

template <class C>
void LodgeTree<C>::PublishFlush(Node* node, std::span<LeafWork> works, uint32_t drained) {
  const LeafWork* split = nullptr;
  for (const LeafWork& work : works) {
    PublishLeaf(node, work);
    if (work.flip) split = &work;
  }
  DropDrained(node, drained);
  if (split != nullptr) InsertLeaf(node, *split);
}

template <class C>
void LodgeTree<C>::PublishLeaf(Node* node, const LeafWork& work) const {
  LeafMirror& mirror = node->mirrors[work.leaf];
  for (uint32_t left = work.filled; left != 0; left &= left - 1) {
    const int slot = std::countr_zero(left);
    mirror.fingerprints[slot] = work.fingerprints[slot];
  }
  mirror.bits = work.NewBits() | (work.use_n != work.flip ? LeafMirror::kUseN : 0);
  node->leaf_count[work.leaf] = static_cast<uint8_t>(mirror.count());
}

// Closes the gaps that drained pairs leave in the Buffer Part, keeping its order.
template <class C>
void LodgeTree<C>::DropDrained(Node* node, uint32_t drained) {
  unsigned to = kNodeSlots;
  uint32_t tombstones = 0;
  for (uint32_t left = node->BufferMask() & ~drained; left != 0;) {
    const unsigned from = 31 - static_cast<unsigned>(std::countl_zero(left));
    left &= ~(uint32_t{1} << from);
    --to;
    tombstones |= (node->tombstones >> from & 1) << to;
    if (from == to) continue;
    node->words[to] = node->words[from];
    node->values[to] = node->values[from];
    node->leaf_count[to] = node->leaf_count[from];
    node->buf_ver[to] = node->buf_ver[from];
    if constexpr (C::kRecords) {
      node->separators.key_words[to] = node->separators.key_words[from];
    }
  }
  node->buf_count = static_cast<uint8_t>(kNodeSlots - to);
  node->tombstones = tombstones;
}

template <class C>
void LodgeTree<C>::ReleaseDrainedLogs(Worker& worker) {
  for (const uint32_t log : worker.drained_logs) log_.Release(log);
  worker.drained_logs.clear();
}

template class LodgeTree<Fixed64Codec>;
template class LodgeTree<BytesCodec>;

}  // namespace lodgekv::lodgetree
