// Finds and locks the nodes of a group.
//
// First all nodes are sought, and what the operations will need there is fetched into the cache, in
// passes over the group: so the lines of many nodes and leaves are on their way at once. The locks
// come after that, from left to right; if one is acquired as of the version that was sought, its
// node still covers the key, and what was found there is valid.
#include "absl/container/inlined_vector.h"
#include "index/lodgetree/group_write.h"
#include "index/node/optimistic_section.h"
#include "index/node/prefetch.h"
#include "index/node/search_form.h"

namespace lodgekv::lodgetree {

// Where the key is in a node; the node may be changing.
template <class C>
template <class Form>
void GroupWrite<C>::PlaceBy(const Node* node, Op& pending) const {
  const auto position = node->template Search<Form>(pending.key);
  pending.leaf = static_cast<uint8_t>(position.leaf);
  pending.hits = position.hits;
  pending.targets = 0;
}

template <class C>
void GroupWrite<C>::Place(const Node* node, Op& pending) const {
  PlaceBy<SearchByPointer>(node, pending);
}

// Finds the nodes: first those of all operations are fetched, then what is needed below them.
// Returns whether an operation depends on what is in its leaf.
template <class C>
template <class Form>
bool GroupWrite<C>::SeekNodes() {
  for (Op& pending : group_) {
    const auto fetched = parts_.tree.template FetchForWrite<Form>(pending.key);
    pending.seen_node = fetched.node;
    pending.seen_version = fetched.version;
    pending.seen_parent = fetched.parent;
  }
  const OptimisticSection section;
  absl::InlinedVector<Op*, kUsual> draining;
  bool any = false;
  for (Op& pending : group_) {
    const Node* node = parts_.tree.Arrive(
        {pending.seen_parent, pending.seen_version, pending.seen_node}, &pending.seen_version);
    if (node == nullptr) [[unlikely]]
      node = pending.seen_node = parts_.tree.DescendForWrite(pending.key, &pending.seen_version);
    PlaceBy<Form>(node, pending);
    const bool current = NeedsCurrent(pending) && pending.hits == 0;
    any |= current;
    if (current) Prefetch(&node->mirrors[pending.leaf]);
    const bool drains = parts_.planner.NeedsDrain(node, pending.leaf);
    node->PrefetchKeyWords(drains);
    if (drains) draining.push_back(&pending);
  }
  // Their leaves, one behind the other, so that the misses on them overlap.
  for (Op* pending : draining) {
    parts_.planner.ChooseTargets(pending->seen_node, pending->leaf, &worker_.plan);
    pending->targets = worker_.plan.Leaves();
  }
  return any;
}

template <class C>
void GroupWrite<C>::SeekAll() {
  const bool any = RunBySearchForm(
      [](auto form, GroupWrite* group) { return group->SeekNodes<decltype(form)>(); }, this);
  if (!any) return;
  const OptimisticSection section;
  for (const Op& pending : group_) {
    if (!NeedsCurrent(pending)) continue;
    parts_.access.FetchSlots(pending.seen_node, pending.leaf, pending.key);
  }
}

// A node that is as it was seen covers the key, and lies to the right of those held, since keys
// ascend. Otherwise bounds are compared, whose texts may not be in the cache.
template <class C>
void GroupWrite<C>::LockNodeOf(Op& pending) {
  HeldNodes<C>& held = nodes_.held;
  Node* node = pending.seen_node;
  const bool is_last = held.size() != 0 && held.back() == node;
  if (is_last ? node->lock.Validate(pending.seen_version)
              : node->lock.TryUpgrade(pending.seen_version)) [[likely]] {
    if (!is_last) held.Add(node);
    pending.node = node;
    return;
  }
  if (held.EndBefore(pending.key)) nodes_.Lock(pending.key);
  pending.node = held.back();
  Place(pending.node, pending);
}

template <class C>
void GroupWrite<C>::LockMany() {
  if (parts_.medium.Canary("lodgetree.write.numbers_before_locks")) {
    group_[0].sequence = parts_.pool.TakeSequence(group_.size() + 1);
  }
  SeekAll();
  for (Op& pending : group_) LockNodeOf(pending);
  nodes_.ForgetSearch();
}

template class GroupWrite<Fixed64Codec>;
template class GroupWrite<BytesCodec>;

}  // namespace lodgekv::lodgetree
