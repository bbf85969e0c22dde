#include "index/lodgetree/drain_all.h"

#include <algorithm>
#include <string>
#include <vector>

#include "index/lodgetree/commit_closer.h"
#include "index/lodgetree/leaf_merge.h"
#include "index/lodgetree/node_merge.h"
#include "index/lodgetree/node_writer.h"
#include "index/node/recovery_tasks.h"

namespace lodgekv::lodgetree {

namespace {

constexpr size_t kRangesPerThread = 8;

// Drains the nodes from the one that covers `low` up to `end` (null: all).
template <class C>
void DrainBuffers(TreeParts<C>& parts, std::string low, const std::string* end) {
  Worker<C>& worker = parts.CurrentWorker();
  for (bool more = true; more;) {
    NodeWriter<C> nodes(parts, worker);
    const auto key = C::MakeKey(low);
    nodes.fenced = true;
    nodes.reserve_policy = pmem::ReservePolicy::kKeep;
    nodes.Lock(key);
    nodes.plan_ready = false;
    LastLevelNode<C>* locked = nodes.held.front();
    // Without a spare leaf some pairs have to stay.
    for (unsigned before = kNodeSlots + 1; locked->buf_count > 0 && locked->buf_count < before;) {
      before = locked->buf_count;
      parts.planner.ChooseTargets(locked, 0, &nodes.plan);
      locked = nodes.DrainWhereRoom(locked, key, parts.pool.PeekSequence() - 1);
    }
    LeafMerger<C> leaves(parts, worker);
    leaves.MergeSparseLeaves(locked, parts.pool.PeekSequence() - 1);
    leaves.NoteIfSparse(locked);
    // Separators ascend, except those of damaged keys.
    more = locked->GoesOnAfter(key) &&
           (end == nullptr || C::CompareToKey(locked->high, C::MakeKey(*end)) < 0);
    if (more) low = C::TextOf(locked->high);
    nodes.held.UnlockAll();
    NodeMerger<C>(parts, worker).MergeSparseNodes();
  }
  CommitCloser<C>(parts, worker).CloseNow();
  worker.ReleaseDrainedLogs(parts.log);
}

}  // namespace

template <class C>
void DrainAllBuffers(TreeParts<C>& parts) {
  // Each thread needs a worker slot, and these threads have none yet.
  const unsigned threads =
      std::min(parts.threads, pmem::kMaxWorkerSlots - pmem::WorkerSlotsUsed() + 1);
  std::vector<std::string> lows = {C::TextOf(C::MinusInfinity())};
  if (threads > 1) {
    for (const auto low : parts.tree.Borders(kRangesPerThread * threads)) {
      lows.push_back(C::TextOf(low));
    }
  }
  (void)RunTasks(lows.size(), threads, [&](size_t i) {
    DrainBuffers(parts, lows[i], i + 1 < lows.size() ? &lows[i + 1] : nullptr);
    return absl::OkStatus();
  });
}

template void DrainAllBuffers(TreeParts<Fixed64Codec>& parts);
template void DrainAllBuffers(TreeParts<BytesCodec>& parts);

}  // namespace lodgekv::lodgetree
