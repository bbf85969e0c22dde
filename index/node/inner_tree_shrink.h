// How an InnerTree shrinks while it is in use: nodes below are removed, inner nodes that have
// become sparse are merged with a neighbour under the same parent, and a root with one child is
// removed.
//
// So an emptied range leaves no nodes: its last node below is merged into the node to its left,
// which has the same parent once the inner nodes above are merged.
//
// All locks are taken by try-lock: parent, left and right, in any order. A thread that finds one
// taken gives up, and its caller retries later. All three publish together, so no reader sees a
// child in two nodes or in none. A merged node covers more than before, so its bounds may share
// less: its prefix and words are chosen anew (Rebase) while its readers wait.
//
// Part of inner_tree.h, for sources that remove nodes: defines LockForRemoval, RemoveAndUnlock and
// Shrink.
#pragma once

#include "index/node/inner_tree.h"

namespace lodgekv {

// A parent and two neighbouring children, all locked, and what they contain together.
template <class C, class Below, class Access>
struct InnerTree<C, Below, Access>::Family {
  // A node with at most this many separators is sparse. It is merged if the result has room to
  // grow: otherwise nodes would be merged and split alternately.
  static constexpr unsigned kSparse = kInnerCapacity / 4;
  static constexpr unsigned kJoined = kInnerCapacity * 3 / 4;

  Node* parent;
  unsigned position;  // of the separator between them
  Node* left;
  Node* right;

  unsigned joint() const { return left->count + right->count + 1u; }

  bool TryLock() {
    if (!left->lock.TryLock()) return false;
    if (right->lock.TryLock()) return true;
    left->lock.Unlock();
    return false;
  }
  void Unlock() const {
    left->lock.Unlock();
    right->lock.Unlock();
  }
  void BeginPublish() const {
    for (Node* node : {parent, left, right}) node->lock.BeginPublish();
  }
  void EndPublish() const {
    for (Node* node : {parent, left, right}) node->lock.EndPublish();
  }
};

template <class C, class Below, class Access>
auto InnerTree<C, Below, Access>::LockForRemoval(const Key& key, const Below* child, Heir heir,
                                                 Node** parent) -> Attempt {
  const OptimisticSection section;
  for (;;) {
    uint64_t snapshot;
    Node* node = DescendToLevel(key, 1, &snapshot);
    if (node->count == 0) {
      if (node == root_.load(std::memory_order_acquire)) return Attempt::kCannot;
      // Its neighbours are children of the inner node's neighbours.
      if (JoinSparse(key, 1) != Attempt::kDone) return Attempt::kBusy;
      continue;
    }
    const unsigned rank = Rank(node, key, Seek::kCovering);
    if (!node->lock.TryUpgrade(snapshot)) return Attempt::kBusy;
    if (access_.BelowOf(node->children[rank]) == child && (rank > 0 || heir == Heir::kEither)) {
      *parent = node;
      return Attempt::kDone;
    }
    node->lock.Unlock();
    return Attempt::kCannot;
  }
}

template <class C, class Below, class Access>
void InnerTree<C, Below, Access>::RemoveAndUnlock(Node* parent, const Key& key) {
  parent->lock.BeginPublish();
  const unsigned rank = Rank(parent, key, Seek::kCovering);
  const unsigned position = rank == 0 ? 0 : rank - 1;
  const Separator gone = parent->SeparatorAt(position);
  EraseChild(parent, position, rank);
  parent->lock.EndPublish();
  C::Release(texts_, gone);
  parent->lock.Unlock();
}

template <class C, class Below, class Access>
bool InnerTree<C, Below, Access>::Shrink(const Key& key) {
  for (unsigned level = 1; level <= root_.load(std::memory_order_acquire)->level;) {
    const Attempt attempt = JoinSparse(key, level);
    if (attempt == Attempt::kBusy) return false;
    if (attempt == Attempt::kCannot) ++level;
  }
  return true;
}

// Treats the node of that level which covers `key`: merges it, gives it children of a neighbour,
// or, if it is the root, removes it. What is read here without a lock only decides whether it is
// worth a try.
template <class C, class Below, class Access>
auto InnerTree<C, Below, Access>::JoinSparse(const Key& key, unsigned level) -> Attempt {
  const OptimisticSection section;
  uint64_t snapshot;
  Node* node = DescendToLevel(key, level, &snapshot);
  if (node == nullptr || node->count > Family::kSparse) return Attempt::kCannot;
  if (node == root_.load(std::memory_order_acquire)) return LowerRoot(node, snapshot);
  Node* parent = DescendToLevel(key, level + 1, &snapshot);
  if (parent == nullptr) return Attempt::kBusy;  // the root was just removed
  if (parent->count == 0) return JoinSparse(key, level + 1);
  if (!parent->lock.TryUpgrade(snapshot)) return Attempt::kBusy;
  const Attempt attempt = JoinChild(parent, Rank(parent, key, Seek::kCovering));
  parent->lock.Unlock();
  return attempt;
}

// The new root is locked meanwhile: a thread that splits it relies on it having a parent.
template <class C, class Below, class Access>
auto InnerTree<C, Below, Access>::LowerRoot(Node* root, uint64_t snapshot) -> Attempt {
  if (root->level == 1 || root->count > 0) return Attempt::kCannot;
  if (!root->lock.TryUpgrade(snapshot)) return Attempt::kBusy;
  Node* child = root->NodeAt(0);
  const bool lowers = child->lock.TryLock();
  if (lowers) {
    root->lock.BeginPublish();
    root_.store(child, std::memory_order_release);
    root->lock.EndPublish();
    child->lock.Unlock();
  }
  root->lock.Unlock();
  if (lowers) FreeNode(root);
  return lowers ? Attempt::kDone : Attempt::kBusy;
}

// The parent is locked and has two children or more.
template <class C, class Below, class Access>
auto InnerTree<C, Below, Access>::JoinChild(Node* parent, unsigned rank) -> Attempt {
  const Node* node = parent->NodeAt(rank);
  bool busy = false;
  for (unsigned position = rank == 0 ? 0 : rank - 1; position <= rank; ++position) {
    if (position == parent->count) break;
    Family family{parent, position, parent->NodeAt(position), parent->NodeAt(position + 1)};
    if (!family.TryLock()) {
      busy = true;
      continue;
    }
    const bool sparse = node->count <= Family::kSparse;
    const bool joins = sparse && family.joint() <= Family::kJoined;
    const bool levels = node->count == 0 && !joins;
    if (joins) Join(family);
    if (levels) Level(family);
    family.Unlock();
    if (joins) FreeNode(family.right);
    if (joins || levels) return Attempt::kDone;
    if (!sparse) return Attempt::kCannot;
  }
  return busy ? Attempt::kBusy : Attempt::kCannot;
}

// The left node takes over the right one's children and range.
template <class C, class Below, class Access>
void InnerTree<C, Below, Access>::Join(const Family& family) {
  const auto [parent, position, left, right] = family;
  family.BeginPublish();
  const unsigned behind = left->count;
  left->SetSeparator(behind, parent->SeparatorAt(position));
  for (unsigned i = 0; i < right->count; ++i) {
    left->SetSeparator(behind + 1 + i, right->SeparatorAt(i));
  }
  std::memcpy(left->children + behind + 1, right->children,
              (right->count + 1) * sizeof(InnerChild));
  left->count = static_cast<uint16_t>(family.joint());
  left->bounded = right->bounded;
  if constexpr (C::kRecords) {
    C::Release(texts_, left->separators.high);
    C::Release(texts_, right->separators.low);
    left->separators.high = right->separators.high;
  }
  EraseChild(parent, position, position + 1);
  Rebase(left);
  family.EndPublish();
}

// One of them has a single child, and the other too many to be merged: they share the children
// evenly.
template <class C, class Below, class Access>
void InnerTree<C, Below, Access>::Level(const Family& family) {
  const auto [parent, position, left, right] = family;
  Separator at[2 * kInnerCapacity + 1];
  InnerChild children[2 * kInnerCapacity + 2];
  unsigned count = 0;
  const auto gather = [&](const Node* node) {
    std::memcpy(children + count, node->children, (node->count + 1) * sizeof(InnerChild));
    for (unsigned i = 0; i < node->count; ++i) at[count++] = node->SeparatorAt(i);
  };
  gather(left);
  at[count++] = parent->SeparatorAt(position);
  gather(right);
  const unsigned middle = count / 2;
  const auto fill = [&](Node* node, unsigned first, unsigned last) {
    node->count = static_cast<uint16_t>(last - first);
    for (unsigned i = first; i < last; ++i) node->SetSeparator(i - first, at[i]);
    std::memcpy(node->children, children + first, (last - first + 1) * sizeof(InnerChild));
  };
  family.BeginPublish();
  fill(left, 0, middle);
  fill(right, middle + 1, count);
  parent->SetSeparator(position, at[middle]);
  if constexpr (C::kRecords) {
    C::Release(texts_, left->separators.high);
    C::Release(texts_, right->separators.low);
    left->separators.high = right->separators.low = at[middle];
    C::Keep(at[middle]);
    C::Keep(at[middle]);
    Rebase(left);
    Rebase(right);
  }
  if (!parent->bounded) Rebase(parent);
  family.EndPublish();
}

}  // namespace lodgekv
