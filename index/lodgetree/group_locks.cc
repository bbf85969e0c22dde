// Finds and locks the nodes of a group.
//
// First all nodes are sought, and what the operations will need there is fetched into the cache, in
// passes over the group: so the lines of many nodes and leaves are on their way at once. The locks
// come after that, from left to right; if one is acquired as of the version that was sought, its
// node still covers the key, and what was found there is valid.
#include <algorithm>

#include "index/lodgetree/group_write.h"
#include "index/node/optimistic_section.h"
#include "index/node/prefetch.h"

namespace lodgekv::lodgetree {

template <class C>
void GroupWrite<C>::SortByKey(std::span<uint32_t> order) const {
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const Key& left = group_[a].key;
    const Key& right = group_[b].key;
    if constexpr (C::kRecords) {
      if (left.word == right.word) return left.text < right.text;
    }
    return left.word < right.word;
  });
}

// Where the key is in a node; the node may be changing.
template <class C>
void GroupWrite<C>::Place(const Node* node, Op& pending) const {
  const auto position = node->Search(pending.key);
  pending.leaf = static_cast<uint8_t>(position.leaf);
  pending.hits = position.hits;
}

template <class C>
void GroupWrite<C>::SeekAll() {
  for (const uint32_t i : worker_.order) {
    Op& pending = group_[i];
    pending.seen_node = parts_.tree.DescendForWrite(pending.key, &pending.seen_version);
  }
  const OptimisticSection section;
  bool any = false;
  for (Op& pending : group_) {
    const Node* node = pending.seen_node;
    Place(node, pending);
    const bool current = NeedsCurrent(pending) && pending.hits == 0;
    any |= current;
    if (current) Prefetch(&node->mirrors[pending.leaf]);
    if (parts_.planner.NeedsDrain(node, pending.leaf)) {
      parts_.planner.ChooseTargets(node, pending.leaf, &worker_.plan);  // fetches their lines
    }
  }
  if (!any) return;
  for (const Op& pending : group_) {
    if (!NeedsCurrent(pending)) continue;
    parts_.access.FetchSlots(pending.seen_node, pending.leaf, pending.key);
  }
}

template <class C>
void GroupWrite<C>::LockNodeOf(Op& pending) {
  Node* node = pending.seen_node;
  if (nodes_.held.EndBefore(pending.key)) {
    if (node->lock.TryUpgrade(pending.seen_version)) {
      nodes_.held.Add(node);
      pending.node = node;
      return;
    }
    nodes_.Lock(pending.key);
  }
  pending.node = nodes_.held.back();
  if (pending.node == node && node->lock.Validate(pending.seen_version)) return;
  Place(pending.node, pending);
}

template <class C>
void GroupWrite<C>::LockMany() {
  auto& order = worker_.order;
  order.resize(group_.size());
  for (uint32_t i = 0; i < group_.size(); ++i) order[i] = i;
  SortByKey(order);
  if (parts_.medium.Canary("lodgetree.write.numbers_before_locks")) {
    group_[0].sequence = parts_.pool.TakeSequence(group_.size() + 1);
  }
  SeekAll();
  for (const uint32_t i : order) LockNodeOf(group_[i]);
  nodes_.ForgetSearch();
}

template class GroupWrite<Fixed64Codec>;
template class GroupWrite<BytesCodec>;

}  // namespace lodgekv::lodgetree
