// Where a descent through the inner nodes has ended: a lower node, its range, and what is beside
// it. A walk over the lower nodes continues from there.
//
// The inner nodes may be changing: whoever uses what was read here validates the parent first
// (inner_tree.h, invariant 5), except to prefetch. Used by one thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "index/node/inner_node.h"
#include "index/node/optimistic_section.h"

namespace lodgekv {

// The range of a lower node as its parents say. Its separators are valid for a thread that holds an
// EpochGuard from before, or the locks that keep these nodes in the tree.
template <class C>
struct InnerBounds {
  typename C::Separator low = C::MinusInfinity();
  typename C::Separator high{};
  bool bounded = false;  // `high` is set
};

template <class C, class Node>
struct InnerPlace {
  const Node* parent = nullptr;
  uint64_t version = 0;  // of the parent
  unsigned rank = 0;
  InnerBounds<C> around;  // range of the parent
  InnerBounds<C> bounds;  // range of the lower node
  // The parent's neighbours, left and right, as far as its own parent has them: to prefetch.
  const Node* left = nullptr;
  const Node* right = nullptr;

  // Moves down to `node`, the child that the place says, or else the root; `rank` is yet to be
  // chosen.
  void Enter(const Node* node, uint64_t its_version, bool is_root) {
    left = is_root || rank == 0 ? nullptr : ChildOf(parent, rank - 1);
    right = is_root || rank >= Last(parent) ? nullptr : ChildOf(parent, rank + 1);
    around = is_root ? InnerBounds<C>{} : bounds;
    parent = node;
    version = its_version;
  }
  // Sets `bounds`; `count`: separators of the parent.
  void SetBounds(unsigned count) {
    bounds = around;
    if (rank > 0) bounds.low = parent->SeparatorAt(rank - 1);
    if (rank == count) return;
    bounds.high = parent->SeparatorAt(rank);
    bounds.bounded = true;
  }

  // What the inner nodes have of the lower node at `distance` from here, also under the parent's
  // neighbour, to be prefetched only. Null: none is known.
  InnerChild ChildAt(int distance) const {
    const OptimisticSection section;
    const Node* node = parent;
    int at = static_cast<int>(rank) + distance;
    if (const int last = Last(parent); at > last) {
      node = right;
      at -= last + 1;
    } else if (at < 0 && left != nullptr) {
      node = left;
      at += Last(left) + 1;
    }
    if (node == nullptr || at < 0 || at > static_cast<int>(kInnerCapacity)) return {};
    return node->children[at];
  }
  // Fetches the neighbour of the parent if a walk over `count` lower nodes goes there.
  void PrefetchBeside(bool to_left, uint64_t count) const {
    const OptimisticSection section;
    const unsigned here = to_left ? rank : Last(parent) - std::min(rank, Last(parent));
    const Node* node = to_left ? left : right;
    if (count > here && node != nullptr) node->PrefetchForSearch();
  }

 private:
  // Of the last child.
  static unsigned Last(const Node* node) { return std::min<unsigned>(node->count, kInnerCapacity); }
  static const Node* ChildOf(const Node* node, unsigned at) { return node->NodeAt(at); }
};

}  // namespace lodgekv
