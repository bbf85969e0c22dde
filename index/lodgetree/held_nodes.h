// The locks of last-level nodes that one operation holds.
//
// INVARIANT  The operation waits for a node only if it lies to the right of those held (Lock), or
// none is held; otherwise it only tries (TryLock). HeldNodes ascend from left to right unless
// TryLock was used: Covering, EndBefore and AddBehind must not be called then.
// Not thread-safe; belongs to one operation.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "index/lodgetree/tree_parts.h"

namespace lodgekv::lodgetree {

// Locks the node that covers `key`; waits for it.
template <class C>
LastLevelNode<C>* LockCovering(const TreeParts<C>& parts, const typename C::Key& key) {
  for (Backoff backoff;; backoff.Pause()) {
    uint64_t snapshot;
    LastLevelNode<C>* node = parts.tree.DescendForWrite(key, &snapshot);
    if (node->lock.TryUpgrade(snapshot)) return node;
  }
}

template <class C>
class HeldNodes {
 public:
  using Key = typename C::Key;
  using Node = LastLevelNode<C>;
  using Inner = InnerTree<C, Node>;

  explicit HeldNodes(const TreeParts<C>& parts) : parts_(parts) {}

  size_t size() const { return nodes_.size(); }
  Node* front() const { return nodes_.front(); }
  Node* back() const { return nodes_.back(); }
  auto begin() const { return nodes_.begin(); }
  auto end() const { return nodes_.end(); }

  // The held node that covers `key`.
  Node* Covering(const Key& key) const {
    if (nodes_.size() == 1) return nodes_.front();
    const auto above = std::partition_point(
        nodes_.begin() + 1, nodes_.end(),
        [&key](const Node* node) { return C::CompareToKey(node->low(), key) <= 0; });
    return *(above - 1);
  }
  // Whether `key` is to the right of the last held node.
  bool EndBefore(const Key& key) const { return nodes_.empty() || !nodes_.back()->EndsAfter(key); }

  // Locks the node that covers `key`; waits for it.
  Node* Lock(const Key& key) {
    Node* node = LockCovering(parts_, key);
    nodes_.push_back(node);
    return node;
  }
  // Null: the node is busy.
  Node* TryLock(const Key& key, typename Inner::Seek seek) {
    uint64_t snapshot;
    Node* node = parts_.tree.Descend(key, &snapshot, seek);
    if (std::find(nodes_.begin(), nodes_.end(), node) != nodes_.end()) return node;
    if (!node->lock.TryUpgrade(snapshot)) return nullptr;
    nodes_.push_back(node);
    return node;
  }
  // Adds a node that the caller has locked, to the right of the others.
  void Add(Node* node) { nodes_.push_back(node); }
  // Adds locked parts of `node`, which now directly follow it.
  void AddBehind(const Node* node, std::span<const typename Inner::Child> parts) {
    const auto behind = std::partition_point(
        nodes_.begin(), nodes_.end(),
        [node](const Node* held) { return C::Compare(held->low(), node->low()) <= 0; });
    const auto first = nodes_.insert(behind, parts.size(), nullptr);
    std::ranges::transform(parts, first, &Inner::Child::node);
  }

  void Unlock(Node* node) {
    nodes_.erase(std::find(nodes_.begin(), nodes_.end(), node));
    node->lock.Unlock();
  }
  // Unlocks the first `count`.
  void UnlockFirst(size_t count) {
    for (size_t i = 0; i < count; ++i) nodes_[i]->lock.Unlock();
    nodes_.erase(nodes_.begin(), nodes_.begin() + static_cast<ptrdiff_t>(count));
  }
  void UnlockAll() {
    for (Node* node : nodes_) node->lock.Unlock();
    nodes_.clear();
  }

 private:
  const TreeParts<C>& parts_;
  static constexpr size_t kUsual = 256;  // of a group; a larger one allocates
  absl::InlinedVector<Node*, kUsual> nodes_;
};

// Calls visit(node) for the last-level nodes from the one that covers the key `low` to the right,
// each locked, until it returns false.
template <class C, class Visit>
void ForEachNodeFrom(const TreeParts<C>& parts, std::string low, Visit visit) {
  for (bool more = true; more;) {
    const auto key = C::MakeKey(low);
    LastLevelNode<C>* node = LockCovering<C>(parts, key);
    more = visit(std::as_const(*node)) && node->GoesOnAfter(key);
    if (more) low = C::TextOf(node->high);
    node->lock.Unlock();
  }
}

}  // namespace lodgekv::lodgetree
