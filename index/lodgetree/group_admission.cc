// Allocates what a group may need before its first durable step.
#include "absl/container/flat_hash_map.h"
#include "index/lodgetree/group_write.h"
#include "index/lodgetree/log_reclaim.h"
#include "index/lodgetree/space_reclaim.h"

namespace lodgekv::lodgetree {

template <class C>
bool GroupWrite<C>::HasPuts() const {
  return std::any_of(group_.begin(), group_.end(),
                     [](const Op& pending) { return pending.op->kind == WriteKind::kPut; });
}

// Allocates what a group may need from the medium before its first durable step: each operation may
// hit a node with a single leaf that must split. (A single operation is checked by AdmitOne, a
// group of deletes by AdmitGroup.)
template <class C>
[[gnu::noinline]] bool GroupWrite<C>::MakeRoom() {
  const bool puts = HasPuts();
  const auto policy = puts ? pmem::ReservePolicy::kKeep : pmem::ReservePolicy::kUse;
  const auto entries = static_cast<unsigned>(group_.size()) + ExtraEntries();
  bool logged = false;
  const auto enough = [&] {
    const bool in_one_log = options_.atomic || group_.size() == 1;
    logged = in_one_log ? parts_.log.ReserveInOneLog(entries, policy)
                        : parts_.log.ReserveAcrossLogs(entries, policy);
    if (!logged) return false;
    const size_t leaves = group_.size() > 1 ? group_.size() + 1 : 0;
    return worker_.spares.Ensure(parts_.spare_source, leaves, pmem::ReservePolicy::kKeep) || !puts;
  };
  // A single operation retries by itself.
  const auto fits = [&] { return enough() ? Outcome::kOk : Outcome::kPoolFull; };
  const Outcome outcome =
      group_.size() == 1 ? fits() : SpaceReclaimer<C>(parts_, worker_).TryToFit(fits);
  return outcome == Outcome::kOk ||
         (!logged && LogReclaimer<C>(parts_, worker_).MakeLogRoom(policy, enough));
}

// Called under the locks: what others put from here on is in no node of the group. If there is no
// leaf, or no fence that is long enough, for each operation: a group of deletes. Only buffered puts
// that have to leave the buffer may need some. These may use the reserve, so that a full pool can
// be emptied.
template <class C>
bool GroupWrite<C>::AdmitGroup() {
  if (worker_.spares.leaves() > group_.size()) [[likely]] {
    if (!parts_.spare_source.fences || worker_.spares.FencesAreLongEnough(parts_.spare_source))
      return true;
    if (HasPuts()) {
      return worker_.spares.Ensure(parts_.spare_source, group_.size() + 1,
                                   pmem::ReservePolicy::kKeep);
    }
  }
  absl::flat_hash_map<const Node*, unsigned> deletes;
  for (const Op& pending : group_) ++deletes[nodes_.held.Covering(pending.key)];
  size_t leaves = 0;
  for (const auto& [node, count] : deletes) {
    const bool fit = node->index_count + node->buf_count + count < parts_.parameters.node_slots;
    if (!fit || node->index_count < parts_.parameters.crowded_below)
      leaves += parts_.planner.PendingSplits(node);
  }
  return worker_.spares.Ensure(parts_.spare_source, leaves, pmem::ReservePolicy::kUse);
}

// Reduces the plan to what needs no leaf. Splitting the node makes room for a delete and for a put
// of a key that is in the leaf: both have their slot there.
template <class C>
bool GroupWrite<C>::AdmitWithoutLeaf(const Op& pending) {
  Node* node = nodes_.held.front();
  const unsigned leaf = nodes_.position.leaf;
  const uint32_t version = node->lock.PublishCount() + 1;
  if (node->full_at == version) {
    nodes_.plan.Clear();
  } else {
    parts_.planner.DropSplits(node, &nodes_.plan);
    if (nodes_.plan.count == 0) node->full_at = version;
  }
  const bool has_place =
      pending.tombstone || parts_.access.FindInLeaf(node, leaf, pending.key) >= 0;
  if (parts_.planner.IsCrowded(node, leaf)) {
    // Only draining its own leaf makes room.
    return nodes_.plan.Has(leaf) && (has_place || parts_.planner.Fits(node, leaf, pending.key));
  }
  if (nodes_.plan.count == 0) return has_place && node->index_count > 1;
  return has_place || parts_.planner.Fits(node, leaf, pending.key);
}

// Whether the operation can be buffered, after a drain if necessary. If no leaf is free, only what
// needs no leaf split: a put waits for space, a delete continues as long as splitting its node
// helps. In a nearly full pool, a put whose leaf has no room splits the leaf at once. So everything
// buffered can always be drained; otherwise it would keep its log and its buffer slot from
// operations that need no new leaf.
template <class C>
[[gnu::noinline]] bool GroupWrite<C>::AdmitOne(const Op& pending) {
  Node* node = nodes_.held.front();
  const auto position = nodes_.position;
  if (parts_.access.BufferedIndex(node, pending.key, position.hits) >= 0) return true;
  if (!parts_.planner.NeedsDrain(node, position.leaf)) {
    if (!parts_.pool.tight() || pending.tombstone ||
        parts_.planner.Fits(node, position.leaf, pending.key))
      return true;
    nodes_.drains_own = worker_.spares.Ensure(parts_.spare_source, 1, pmem::ReservePolicy::kKeep);
    return nodes_.drains_own;
  }
  if (!nodes_.plan_ready) parts_.planner.ChooseTargets(node, position.leaf, &nodes_.plan);
  nodes_.plan_ready = true;
  const bool strict = parts_.pool.tight() && !pending.tombstone;
  if (strict && !nodes_.plan.Has(position.leaf) &&
      !parts_.planner.Fits(node, position.leaf, pending.key)) {
    nodes_.drains_own = worker_.spares.Ensure(parts_.spare_source, nodes_.plan.splits + 1,
                                              pmem::ReservePolicy::kKeep);
    return nodes_.drains_own;
  }
  const auto policy = pending.tombstone ? pmem::ReservePolicy::kUse : pmem::ReservePolicy::kKeep;
  if (nodes_.plan.splits == 0 || worker_.spares.Ensure(parts_.spare_source, 1, policy)) return true;
  return AdmitWithoutLeaf(pending);
}

template class GroupWrite<Fixed64Codec>;
template class GroupWrite<BytesCodec>;

}  // namespace lodgekv::lodgetree
