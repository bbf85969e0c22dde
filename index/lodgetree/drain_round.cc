#include "index/lodgetree/drain_round.h"

#include <bit>

#include "index/lodgetree/leaf_merge.h"
#include "index/pmem/crash_point.h"

namespace lodgekv::lodgetree {

// Selects the operations of the turn that go to their leaf with the drain. Returns the buffered
// pairs that they supersede.
template <class C>
uint32_t DrainRound<C>::SendDirect(Turn& turn, std::span<PendingOp<C>> group) {
  uint32_t superseded = 0;
  for (size_t i = turn.first_op; i < turn.first_op + turn.op_count; ++i) {
    PendingOp<C>& pending = group[worker_.todo[i]];
    if ((turn.leaves >> pending.leaf & 1) == 0) continue;
    worker_.round.logs.push_back(pending.log);
    turn.removes |= pending.tombstone;
    if (pending.buffered < 0) continue;
    const auto at = static_cast<unsigned>(pending.buffered);
    superseded |= uint32_t{1} << at;
    worker_.counters.Add(WorkerCounters::kSuperseded);
    if (parts_.access.LosesRecord(turn.node, at, pending.key, pending.staged.pair.value))
      worker_.unlinked.push_back(turn.node->values[at]);
  }
  return superseded;
}

// Skips buffered pairs that a newer operation of the group supersedes.
template <class C>
void DrainRound<C>::SortIntoLeaf(const Node* node, uint32_t superseded, LeafWork& work) {
  for (uint32_t left = work.group & ~superseded; left != 0;) {
    const unsigned i = 31 - static_cast<unsigned>(std::countl_zero(left));
    left &= ~(uint32_t{1} << i);
    writer_.SortPair(node, node->BufferedPair(i), node->IsTombstone(i), true, work);
  }
}

// Their log entries share the fence of the leaf's new slots.
template <class C>
void DrainRound<C>::SortDirect(const Turn& turn, std::span<PendingOp<C>> group, LeafWork& work) {
  const bool in_place = parts_.medium.Canary("lodgetree.group.update_in_place");
  for (size_t i = turn.first_op; i < turn.first_op + turn.op_count; ++i) {
    const PendingOp<C>& pending = group[worker_.todo[i]];
    if (pending.leaf != work.leaf) continue;
    writer_.SortPair(turn.node, pending.staged.pair, pending.tombstone, in_place, work);
  }
}

// Flat: its parts run once or twice a drain, and calling them costs more than they do.
template <class C>
[[gnu::flatten]] void DrainRound<C>::StageTurn(Turn& turn, std::span<PendingOp<C>> group) {
  const Node* node = turn.node;
  closer_.CloseNode(turn.node);
  const uint32_t superseded = SendDirect(turn, group);
  turn.first_work = worker_.round.work_count;
  for (uint32_t leaves = turn.leaves; leaves != 0; leaves &= leaves - 1) {
    const auto leaf = static_cast<unsigned>(std::countr_zero(leaves));
    LeafWork& work = worker_.round.NextWork();
    parts_.Touch(node, leaf);
    writer_.Begin(node, leaf, node->GroupMask(leaf), turn.watermark, &work);
    work.first_fresh = static_cast<unsigned>(worker_.round.fresh.size());
    turn.drained |= work.group;
    SortIntoLeaf(node, superseded, work);
    SortDirect(turn, group, work);
    writer_.Stage(turn, work);
    turn.second_commit |= work.second_commit;
    turn.splits |= work.flip;
  }
  turn.work_count = worker_.round.work_count - turn.first_work;
  for (uint32_t left = turn.drained; left != 0; left &= left - 1) {
    worker_.round.logs.push_back(node->buf_ver[std::countr_zero(left)]);
  }
  turn.removes |= (turn.drained & node->tombstones) != 0;
}

template <class C>
void DrainRound<C>::FenceStaged() {
  LODGEKV_CRASH_POINT(parts_.medium, "lodgetree.flush.1");
  parts_.medium.Fence();
  closer_.AfterFence();
  LODGEKV_CRASH_POINT(parts_.medium, "lodgetree.flush.2");
}

template <class C>
void DrainRound<C>::PublishDrain(const Turn& turn) {
  Round<C>& round = worker_.round;
  const std::span<const LeafWork> works = round.WorksOf(turn);
  for (const LeafWork& work : works) {
    writer_.PublishMirror(turn.node, work);
  }
  turn.node->DropDrained(turn.drained);
  // From right to left, so that the indices of leaves to be split stay valid.
  for (size_t i = works.size(); i-- > 0;) {
    for (unsigned j = 0; j < works[i].new_count; ++j) {
      turn.node->InsertLeaf(works[i].leaf + 1, round.new_leaves[works[i].first_new + j],
                            parts_.codec);
    }
  }
}

template <class C>
void DrainRound<C>::CommitAndPublishSecond() {
  Round<C>& round = worker_.round;
  const bool readers_go_on = parts_.medium.Canary("lodgetree.second_commit.readers_go_on");
  for (const Turn& turn : round.turns) {
    if (turn.second_commit && !readers_go_on) turn.node->lock.BeginPublish();
  }
  writer_.CommitSecond();
  for (const Turn& turn : round.turns) {
    if (!turn.second_commit) continue;
    if (readers_go_on) turn.node->lock.BeginPublish();
    PublishDrain(turn);
    turn.node->lock.EndPublish();
  }
  for (const LeafWork& work : round.Works()) {
    if (work.second_commit) worker_.counters.Add(WorkerCounters::kSecondCommits);
  }
}

// The leaves of a round, all under the same fences. What is published is durable in the logs; only
// a second commit overwrites slots that readers may still read, and they wait for it.
template <class C>
void DrainRound<C>::CommitAndPublish() {
  Round<C>& round = worker_.round;
  writer_.StoreCommits(round.Works(), LeafWriter<C>::Pass::kFirst);
  bool second = false;
  for (const Turn& turn : round.turns) {
    second |= turn.second_commit;
    if (!turn.PublishesAtOnce()) continue;
    turn.node->lock.BeginPublish();
    PublishDrain(turn);
    turn.node->lock.EndPublish();
  }
  LODGEKV_CRASH_POINT(parts_.medium, "lodgetree.flush.3");
  if (second) {
    parts_.medium.Fence();
    CommitAndPublishSecond();
  }
  KeepOpen();
  if (second) {
    closer_.AfterFence();
  } else if (!parts_.parameters.deferred_close) {
    closer_.CloseNow();
  }
}

// What the commits of the round make superfluous waits for their fence.
template <class C>
void DrainRound<C>::KeepOpen() {
  Round<C>& round = worker_.round;
  auto& open = worker_.open_commits;
  const CommitMark mark = open.Open();
  for (const Turn& turn : round.turns) {
    if (turn.leaves != 0) turn.node->commits = mark;  // another thread's may be open in the others
  }
  for (const LeafWork& work : round.Works()) open.stored.leaves.push_back(work.media);
  if (parts_.medium.strict_order()) closer_.OweWatermarks(round.Works());
  const bool logs_now = parts_.medium.Canary("lodgetree.close.logs_at_once");
  MoveAll(round.logs, logs_now ? worker_.drained_logs : open.stored.logs);
  if (parts_.medium.Canary("lodgetree.flush.unlinked_stay")) worker_.unlinked.clear();
  MoveAll(worker_.unlinked, open.stored.unlinked);
  if (parts_.medium.Canary("lodgetree.close.records_at_once")) {
    closer_.RetireUnlinked(open.stored.unlinked);
  }
}

template <class C>
void DrainRound<C>::FinishTurn(const Turn& turn) {
  if (turn.removes || turn.node->sparse)
    LeafMerger<C>(parts_, worker_).MergeSparseLeaves(turn.node, turn.watermark);
  worker_.counters.Add(WorkerCounters::kFlushes);
  worker_.counters.Add(WorkerCounters::kFlushedLeaves, turn.work_count);
  worker_.counters.Add(WorkerCounters::kFlushedPairs,
                       static_cast<uint64_t>(std::popcount(turn.drained)));
}

template class DrainRound<Fixed64Codec>;
template class DrainRound<BytesCodec>;

}  // namespace lodgekv::lodgetree
