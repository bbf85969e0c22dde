// Removes a leaf, or exchanges the lower node that it stands for. A node that is left with one
// entry is removed too: that entry takes its place, and if it is a node, its bytes (path
// compression); nodes with few children are replaced by smaller ones.
#pragma once

#include <cstddef>
#include <cstdint>

#include "index/art/held_locks.h"
#include "index/art/key.h"
#include "index/art/node_change.h"
#include "index/art/node_search.h"
#include "index/art/tree_parts.h"
#include "index/node/optimistic_section.h"

namespace lodgekv::art {

template <class Form, class Parts>
class Removal {
 public:
  using Key = typename Parts::Key;

  Removal(Parts& parts, Key key) : parts_(parts), key_(key) {}

  Attempt TryRemove();
  Attempt TryReplace(const void* by);
  // The leaf that was removed or replaced.
  Child leaf() const { return leaf_; }

 private:
  using Search = typename ByteSearch<Form>::Type;

  Attempt FindLeaf();
  Attempt RemoveInPlace();
  Attempt RemoveNode();
  Attempt Shrink();
  void DropIn(Child node);
  Child Remaining(uint8_t* byte) const;
  bool TakeBoth(HeldLocks* locks);

  Parts& parts_;
  const Key key_;
  Child leaf_;
  Lead to_leaf_;           // the root, or the node that has it, and the byte by which it is a child
  bool terminal_ = false;  // it is that node's terminal
  Lead to_node_;           // that node's own
  size_t node_depth_ = 0;  // at which it begins
};

template <class Form, class Parts>
bool Removal<Form, Parts>::TakeBoth(HeldLocks* locks) {
  return locks->Take(to_node_.LockIn(parts_.root), to_node_.view) &&
         locks->Take(to_leaf_.LockIn(parts_.root), to_leaf_.view);
}

// The way needs no comparison of prefixes: a key that is in the tree has them, and the leaf that is
// found has either the whole key, or the key is not there.
template <class Form, class Parts>
Attempt Removal<Form, Parts>::FindLeaf() {
  const OptimisticSection section;
  size_t depth = 0;
  to_leaf_ = {Child(), View(parts_.root.lock), 0};
  leaf_ = parts_.root.child.Get();
  while (leaf_.is_node()) {
    to_node_ = to_leaf_;
    node_depth_ = depth;
    to_leaf_.node = leaf_;
    if (!StepInto(leaf_, &to_leaf_.view)) return Attempt::kChanged;
    const NodeInfo info = leaf_.node()->info();
    depth += info.prefix_length;
    terminal_ = depth == LengthOf(key_);
    if (depth > LengthOf(key_)) {
      leaf_ = Child();
    } else if (terminal_) {
      leaf_ = leaf_.node()->terminal.Get();
    } else {
      to_leaf_.byte = ByteAt(key_, depth++);
      leaf_ = Find<Search>(leaf_, info, to_leaf_.byte).child;
    }
  }
  const bool found = !leaf_.empty() && parts_.leaves.KeyOf(leaf_) == key_;
  if (!to_leaf_.view.Holds()) return Attempt::kChanged;
  return found ? Attempt::kDone : Attempt::kCannot;
}

template <class Form, class Parts>
Attempt Removal<Form, Parts>::TryReplace(const void* by) {
  const Attempt found = FindLeaf();
  if (found != Attempt::kDone) return found;
  HeldLocks locks;
  if (!locks.Take(to_leaf_.LockIn(parts_.root), to_leaf_.view)) return Attempt::kChanged;
  const Child leaf = Child::OfLeaf(by, leaf_.hint());
  locks.Publish([&] {
    if (terminal_) {
      to_leaf_.node.node()->terminal.Set(leaf);
    } else {
      to_leaf_.SetIn(parts_.root, leaf);
    }
  });
  return Attempt::kDone;
}

template <class Form, class Parts>
Attempt Removal<Form, Parts>::TryRemove() {
  const Attempt found = FindLeaf();
  if (found != Attempt::kDone) return found;
  if (to_leaf_.node.empty()) return RemoveInPlace();
  // Valid if the locks can be taken.
  const Node& node = *to_leaf_.node.node();
  if (node.entries() == 2) return RemoveNode();
  const unsigned left = node.info().count - (terminal_ ? 0u : 1u);
  return left <= ShrinksAt(to_leaf_.node.kind()) ? Shrink() : RemoveInPlace();
}

// From a node that stays, or is not in the tree yet.
template <class Form, class Parts>
void Removal<Form, Parts>::DropIn(Child node) {
  if (terminal_) {
    node.node()->terminal.Set(Child());
  } else {
    Drop(node, to_leaf_.byte);
  }
}

template <class Form, class Parts>
Attempt Removal<Form, Parts>::RemoveInPlace() {
  HeldLocks locks;
  if (!locks.Take(to_leaf_.LockIn(parts_.root), to_leaf_.view)) return Attempt::kChanged;
  locks.Publish([&] {
    if (to_leaf_.node.empty()) {
      parts_.root.child.Set(Child());
    } else {
      DropIn(to_leaf_.node);
    }
  });
  return Attempt::kDone;
}

// The other entry of a node with two, and its byte if it is a child.
template <class Form, class Parts>
Child Removal<Form, Parts>::Remaining(uint8_t* byte) const {
  Child remaining = terminal_ ? Child() : to_leaf_.node.node()->terminal.Get();
  EachChild(to_leaf_.node, [&](uint8_t of_child, Child child) {
    if (!terminal_ && of_child == to_leaf_.byte) return;
    *byte = of_child;
    remaining = child;
  });
  return remaining;
}

// The node's prefix, the byte, and the prefix of the remaining node are the latter's new prefix.
// The first eight bytes of that are in the two nodes.
template <class Form, class Parts>
Attempt Removal<Form, Parts>::RemoveNode() {
  const Child gone = to_leaf_.node;
  {
    HeldLocks locks;
    if (!TakeBoth(&locks)) return Attempt::kChanged;
    uint8_t byte = 0;
    Child remaining = Remaining(&byte);
    const bool leaf = !remaining.is_node();
    if (!leaf && !locks.Take(remaining.node()->lock)) return Attempt::kChanged;
    if (leaf) remaining = remaining.WithHint(HintAt(parts_.leaves.KeyOf(remaining), node_depth_));
    locks.Publish([&] {
      if (!leaf) PutBefore(*gone.node(), byte, *remaining.node());
      to_node_.SetIn(parts_.root, remaining);
    });
  }
  parts_.nodes.Free(gone);
  return Attempt::kDone;
}

template <class Form, class Parts>
Attempt Removal<Form, Parts>::Shrink() {
  const Child gone = to_leaf_.node;
  {
    HeldLocks locks;
    if (!TakeBoth(&locks)) return Attempt::kChanged;
    const Child shrunk = parts_.nodes.New(KindFor(gone.node()->info().count));
    CopyNode(gone, shrunk);
    DropIn(shrunk);
    locks.Publish([&] { to_node_.SetIn(parts_.root, shrunk); });
  }
  parts_.nodes.Free(gone);
  return Attempt::kDone;
}

}  // namespace lodgekv::art
