// What the tree's operations work on.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "index/art/child.h"
#include "index/art/node_change.h"
#include "index/art/node_store.h"
#include "index/art/view.h"
#include "index/node/dram_arena.h"

namespace lodgekv::art {

// The leaves of a tree are the lower nodes themselves. Of a stale one the key may be another's.
template <class Below, class KeyOfBelow>
struct Leaves {
  using Key = std::decay_t<std::invoke_result_t<const KeyOfBelow&, const Below*>>;

  [[no_unique_address]] KeyOfBelow key_of;

  static Below* At(Child leaf) { return static_cast<Below*>(leaf.below()); }
  Key KeyOf(Child leaf) const { return key_of(At(leaf)); }
  // A search is about to return it, or to look at its key.
  void Fetch(Child leaf) const {
    if constexpr (requires { key_of.Prefetch(At(leaf)); }) key_of.Prefetch(At(leaf));
  }
};

template <class Below, class KeyOfBelow>
struct TreeParts {
  using Key = typename Leaves<Below, KeyOfBelow>::Key;

  TreeParts(DramArena& arena, KeyOfBelow key_of) : leaves{key_of}, nodes(arena) {}

  Leaves<Below, KeyOfBelow> leaves;
  Root root;
  NodeStore nodes;
  std::atomic<uint64_t> size{0};
  mutable std::atomic<uint64_t> restarts{0};
};

// What leads to a node or a leaf: a child of another node, or the root.
struct Lead {
  Child node;  // empty: the root
  View view;
  uint8_t byte = 0;

  VersionLock& LockIn(Root& root) const { return node.empty() ? root.lock : node.node()->lock; }
  void SetIn(Root& root, Child child) const {
    if (node.empty()) {
      root.child.Set(child);
    } else {
      SetChild(node, byte, child);
    }
  }
};

// How an attempt to change the tree ends.
enum class Attempt : uint8_t {
  kDone,
  kCannot,   // what it was to insert is there, or what it was to change is not
  kChanged,  // something has changed, or is locked: again from the root
};

}  // namespace lodgekv::art
