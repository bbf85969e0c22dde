#include "index/lodgetree/node_writer.h"

#include <utility>

#include "index/lodgetree/commit_closer.h"
#include "index/node/log_fence.h"
#include "index/node/optimistic_section.h"

namespace lodgekv::lodgetree {

template <class C>
void NodeWriter<C>::Lock(const Key& key, SeenNode<C> seen) {
  for (Backoff backoff;; backoff.Pause()) {
    auto [node, snapshot] = std::exchange(seen, {});
    if (node == nullptr) node = parts_.tree.DescendForWrite(key, &snapshot);
    const OptimisticSection section;
    position = node->Search(key);
    plan_ready = position.hits == 0 && parts_.planner.NeedsDrain(node, position.leaf);
    if (plan_ready) parts_.planner.ChooseTargets(node, position.leaf, &plan);
    if (plan_ready && plan.splits > 0) worker_.spares.Prefetch(parts_.pool);
    if (node->lock.TryUpgrade(snapshot)) {
      held.Add(node);
      searched = true;
      return;
    }
  }
}

template <class C>
void NodeWriter<C>::EnsureFenced() {
  if (fenced) return;
  FenceLog(parts_.medium);
  CommitCloser<C>(parts_, worker_).AfterFence();
  fenced = true;
}

template <class C>
void NodeWriter<C>::Insert(Node* node, unsigned leaf, const PendingOp<C>& pending) {
  node->InsertBuffered(leaf, pending.key, pending.staged.pair, pending.log, pending.tombstone);
  if (C::kRecords || pending.tombstone) parts_.holders.Note(node);
}

template <class C>
void NodeWriter<C>::Supersede(Node* node, unsigned at, const PendingOp<C>& pending) {
  const uint64_t old_value = node->values[at];
  const bool loses = parts_.access.LosesRecord(node, at, pending.key, pending.staged.pair.value);
  parts_.log.Release(node->buf_ver[at]);
  node->ReplaceBuffered(at, pending.staged.pair.value, pending.log, pending.tombstone);
  worker_.counters.Add(WorkerCounters::kSuperseded);
  if (pending.tombstone) parts_.holders.deletes().Add(node);
  if (loses) worker_.RetireRecord(parts_.slab, old_value);
}

template <class C>
void NodeWriter<C>::Apply(PendingOp<C>& pending) {
  Node* node = held.Covering(pending.key);
  auto place = searched ? position : node->Search(pending.key);
  const int at = parts_.access.BufferedIndex(node, pending.key, place.hits);
  if (at >= 0) {
    EnsureFenced();
    Supersede(node, static_cast<unsigned>(at), pending);
    return;
  }
  if (parts_.planner.NeedsDrain(node, place.leaf)) {
    node = MakeBufferRoom(node, pending.key, pending.sequence, &place.leaf);
    if (stuck) return;
  }
  EnsureFenced();
  Insert(node, place.leaf, pending);
  if (!parts_.parameters.surrogate_buffer || drains_own)
    DrainLeaf(node, place.leaf, pending.key, pending.sequence);
}

template class NodeWriter<Fixed64Codec>;
template class NodeWriter<BytesCodec>;

}  // namespace lodgekv::lodgetree
