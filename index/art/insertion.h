// Inserts a leaf: finds where its key parts from the tree, locks what changes, and changes it (ICDE
// 2013, "Algorithms"; DaMoN 2016, "Optimistic Lock Coupling": at most a node and what leads to it
// are locked).
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "index/art/any_leaf.h"
#include "index/art/held_locks.h"
#include "index/art/key.h"
#include "index/art/node_change.h"
#include "index/art/node_search.h"
#include "index/art/tree_parts.h"
#include "index/node/optimistic_section.h"

namespace lodgekv::art {

template <class Form, class Parts>
class Insertion {
 public:
  using Key = typename Parts::Key;

  // `below` has the key.
  Insertion(Parts& parts, Key key, const void* below) : parts_(parts), key_(key), below_(below) {}

  Attempt Try() {
    switch (FindPlace()) {
      case Place::kThere: return Attempt::kCannot;
      case Place::kUnknown: return Attempt::kChanged;
      case Place::kEmptyTree: return SetLead(NewLeaf(0));
      case Place::kInPrefix: return SplitPrefix();
      case Place::kTerminal: return SetTerminal();
      case Place::kChild: return AddChild();
      case Place::kLeaf: break;
    }
    return SplitLeaf();
  }

 private:
  using Search = typename ByteSearch<Form>::Type;
  // Where the key parts from the tree.
  enum class Place : uint8_t {
    kUnknown,  // something has changed meanwhile
    kThere,    // nowhere: the key is in the tree
    kEmptyTree,
    kInPrefix,  // within the prefix of here_
    kTerminal,  // it ends where here_ branches
    kChild,     // here_ has no child by its byte
    kLeaf,      // here_ is a leaf
  };
  // What is on the other side of the place where it parts.
  struct Other {
    uint8_t byte = 0;
    bool ends = false;    // its key does, and there is no byte
    uint64_t behind = 0;  // the bytes behind that one
  };

  Place FindPlace();
  bool ComparePrefix(NodeInfo info);
  Place CompareLeaf();
  Attempt SetLead(Child child);
  Attempt SplitPrefix();
  Attempt SetTerminal();
  Attempt AddChild();
  Attempt Grow();
  Attempt SplitLeaf();
  bool TakeBoth(HeldLocks* locks);
  Child NewFork(uint64_t prefix, Child other);
  // To be put where the first `depth` bytes of the key lead to.
  Child NewLeaf(size_t depth) const { return Child::OfLeaf(below_, HintAt(key_, depth)); }

  Parts& parts_;
  const Key key_;
  const void* const below_;
  Lead lead_;  // to here_
  Child here_;
  View view_;            // of here_, if it is a node
  size_t depth_ = 0;     // at which here_ begins
  size_t parts_at_ = 0;  // the first byte that is not the key's
  Other other_;
};

template <class Form, class Parts>
auto Insertion<Form, Parts>::FindPlace() -> Place {
  const OptimisticSection section;
  lead_ = {Child(), View(parts_.root.lock), 0};
  here_ = parts_.root.child.Get();
  while (here_.is_node()) {
    view_ = lead_.view;
    if (!StepInto(here_, &view_)) return Place::kUnknown;
    const NodeInfo info = here_.node()->info();
    if (!ComparePrefix(info)) return Place::kUnknown;
    const size_t branches_at = depth_ + info.prefix_length;
    if (parts_at_ < branches_at) return Place::kInPrefix;
    if (branches_at == LengthOf(key_)) {
      if (here_.node()->terminal.Get().empty()) return Place::kTerminal;
      return view_.Holds() ? Place::kThere : Place::kUnknown;
    }
    const uint8_t byte = ByteAt(key_, branches_at);
    const Hit hit = Find<Search>(here_, info, byte);
    if (hit.child.empty()) {
      parts_at_ = branches_at;
      return Place::kChild;
    }
    lead_ = {here_, view_, byte};
    here_ = hit.child;
    depth_ = branches_at + 1;
  }
  return here_.empty() ? Place::kEmptyTree : CompareLeaf();
}

// Sets parts_at_, and if that is within the prefix, other_. False: something has changed.
template <class Form, class Parts>
bool Insertion<Form, Parts>::ComparePrefix(NodeInfo info) {
  const size_t end = depth_ + info.prefix_length;
  if (info.prefix_length <= kShownPrefix) {
    const uint64_t prefix = here_.node()->shown_prefix();
    const auto same = static_cast<size_t>(std::countl_zero(prefix ^ WordAt(key_, depth_))) / 8;
    parts_at_ = std::min({depth_ + same, end, LengthOf(key_)});
    if (parts_at_ < end) {
      other_ = {ByteAt(prefix, parts_at_ - depth_), false, WordAt(prefix, parts_at_ - depth_ + 1)};
    }
    return true;
  }
  View above = view_;
  const Child leaf = LeastLeaf(Least(here_), &above);
  if (leaf.empty()) return false;
  const Key key = parts_.leaves.KeyOf(leaf);
  parts_at_ = std::min(FirstDifference(key_, key, depth_), end);
  if (parts_at_ < std::min(end, LengthOf(key))) {
    other_ = {ByteAt(key, parts_at_), false, WordAt(key, parts_at_ + 1)};
  }
  return above.Holds();
}

template <class Form, class Parts>
auto Insertion<Form, Parts>::CompareLeaf() -> Place {
  const Key key = parts_.leaves.KeyOf(here_);
  parts_at_ = FirstDifference(key_, key, depth_);
  const bool ends = parts_at_ >= LengthOf(key);
  other_ =
      ends ? Other{.ends = true} : Other{ByteAt(key, parts_at_), false, WordAt(key, parts_at_ + 1)};
  if (!ends || parts_at_ < LengthOf(key_)) return Place::kLeaf;
  return lead_.view.Holds() ? Place::kThere : Place::kUnknown;
}

template <class Form, class Parts>
bool Insertion<Form, Parts>::TakeBoth(HeldLocks* locks) {
  return locks->Take(lead_.LockIn(parts_.root), lead_.view) &&
         locks->Take(here_.node()->lock, view_);
}

template <class Form, class Parts>
Attempt Insertion<Form, Parts>::SetLead(Child child) {
  HeldLocks locks;
  if (!locks.Take(lead_.LockIn(parts_.root), lead_.view)) return Attempt::kChanged;
  locks.Publish([&] { lead_.SetIn(parts_.root, child); });
  return Attempt::kDone;
}

// A node that branches at parts_at_, to the new leaf and to `other`.
template <class Form, class Parts>
Child Insertion<Form, Parts>::NewFork(uint64_t prefix, Child other) {
  const Child fork = parts_.nodes.New(Kind::k4);
  fork.node()->SetPrefix(prefix, parts_at_ - depth_);
  if (other_.ends) {
    fork.node()->terminal.Set(other);
  } else {
    Add(fork, other_.byte, other);
  }
  if (parts_at_ == LengthOf(key_)) {
    fork.node()->terminal.Set(NewLeaf(parts_at_));
  } else {
    Add(fork, ByteAt(key_, parts_at_), NewLeaf(parts_at_ + 1));
  }
  return fork;
}

template <class Form, class Parts>
Attempt Insertion<Form, Parts>::SplitPrefix() {
  HeldLocks locks;
  if (!TakeBoth(&locks)) return Attempt::kChanged;
  Node& node = *here_.node();
  const size_t left = node.info().prefix_length - (parts_at_ - depth_) - 1;
  const Child fork = NewFork(node.shown_prefix(), here_);
  locks.Publish([&] {
    node.SetPrefix(other_.behind, left);
    lead_.SetIn(parts_.root, fork);
  });
  return Attempt::kDone;
}

template <class Form, class Parts>
Attempt Insertion<Form, Parts>::SetTerminal() {
  HeldLocks locks;
  if (!locks.Take(here_.node()->lock, view_)) return Attempt::kChanged;
  locks.Publish([&] { here_.node()->terminal.Set(NewLeaf(LengthOf(key_))); });
  return Attempt::kDone;
}

template <class Form, class Parts>
Attempt Insertion<Form, Parts>::AddChild() {
  // Valid if the lock can be taken.
  if (here_.node()->info().count == CapacityOf(here_.kind())) return Grow();
  HeldLocks locks;
  if (!locks.Take(here_.node()->lock, view_)) return Attempt::kChanged;
  locks.Publish([&] { Add(here_, ByteAt(key_, parts_at_), NewLeaf(parts_at_ + 1)); });
  return Attempt::kDone;
}

template <class Form, class Parts>
Attempt Insertion<Form, Parts>::Grow() {
  {
    HeldLocks locks;
    if (!TakeBoth(&locks)) return Attempt::kChanged;
    const Child grown = parts_.nodes.New(KindFor(CapacityOf(here_.kind()) + 1));
    CopyNode(here_, grown);
    Add(grown, ByteAt(key_, parts_at_), NewLeaf(parts_at_ + 1));
    locks.Publish([&] { lead_.SetIn(parts_.root, grown); });
  }
  parts_.nodes.Free(here_);
  return Attempt::kDone;
}

// The leaf here_ gets a node above it, which has the bytes that both keys share (lazy expansion,
// ICDE 2013, "Collapsing Inner Nodes").
template <class Form, class Parts>
Attempt Insertion<Form, Parts>::SplitLeaf() {
  HeldLocks locks;
  if (!locks.Take(lead_.LockIn(parts_.root), lead_.view)) return Attempt::kChanged;
  const Child other = here_.WithHint(HintAt(other_.behind, 0));
  const Child fork = NewFork(WordAt(key_, depth_), other);
  locks.Publish([&] { lead_.SetIn(parts_.root, fork); });
  return Attempt::kDone;
}

}  // namespace lodgekv::art
