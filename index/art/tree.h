// An adaptive radix tree in DRAM (Leis, Kemper, Neumann: "The Adaptive Radix Tree", ICDE 2013) with
// optimistic lock coupling (Leis, Scheibner, Kemper, Neumann: "The ART of Practical
// Synchronization", DaMoN 2016, "Optimistic Lock Coupling"): maps separators to the lower nodes of
// a tree, as SPTree's top layer does (4.1, 4.2). docs/decisions/0032-art-of-our-own.md says why it
// is our own.
//
// A leaf of the tree is the address of a lower node, and that node holds the separator: KeyOf reads
// it. So the tree has no copy of the keys but for the bytes by which they differ, and of each the
// next two, which spare most searches the look at a node whose separator is above the key.
//
// Requirements
//  - KeyOf: `uint64_t operator()(const Below*) const`, the big-endian value of a key of eight
//    bytes, or `std::string_view` for texts of up to 65,535 bytes, of which one may be the
//    beginning of another and which may contain any byte.
//    It may have `void Prefetch(const Below*) const`, for what the caller of a search will read.
//  - The address of a Below is a multiple of 8 and below 2^48, and its key stays what it is while
//    it is in the tree.
//  - Its memory stays one of a Below for as long as the tree is used (node_pool.h, dram_arena.h),
//    and the text that it refers to stays readable, whatever is in it (separator_texts.h): a reader
//    asks a stale Below for its key, too, and throws the answer away. So readers need no EpochGuard
//    for the tree's sake.
//
// Thread safety: all but Build, Check and the destructor may run concurrently. Searches take no
// lock and allocate nothing.
#pragma once

#include <cstdint>

#include "index/art/floor_search.h"
#include "index/art/insertion.h"
#include "index/art/removal.h"
#include "index/art/tree_parts.h"
#include "index/node/dram_arena.h"
#include "index/node/optimistic_section.h"
#include "index/node/search_form.h"
#include "index/node/version_lock.h"

namespace lodgekv::art {

template <class Below, class KeyOf>
class Tree {
 public:
  using Parts = TreeParts<Below, KeyOf>;
  using Key = typename Parts::Key;

  explicit Tree(DramArena& arena, KeyOf key_of = {}) : parts_(arena, key_of) {}

  // The lower node of the greatest separator that is at most the key, or below it; null: there is
  // none. What holds of it beside writers: floor_search.h. `Form`: index/node/search_form.h.
  template <class Form = SearchByPointer>
  Below* Floor(Key key) const {
    return Search<Form, true>(key, [](Below*) {});
  }
  template <class Form = SearchByPointer>
  Below* Before(Key key) const {
    return Search<Form, false>(key, [](Below*) {});
  }

  // The same for a caller whose lower nodes have versions: `arrive(below)`, which takes that of the
  // result, is called while that is in the tree, and what it took is of a lower node that was. Not
  // called if there is no result.
  template <class Form = SearchByPointer, class Arrive>
  Below* Floor(Key key, Arrive arrive) const {
    return Search<Form, true>(key, arrive);
  }
  template <class Form = SearchByPointer, class Arrive>
  Below* Before(Key key, Arrive arrive) const {
    return Search<Form, false>(key, arrive);
  }

  // The lower node of the greatest separator of all; null: the tree is empty.
  Below* Last() const {
    return Last([](Below*) {});
  }
  template <class Arrive>
  Below* Last(Arrive arrive) const;

  // `key` is that of `below`. False: the separator is there, with some lower node.
  template <class Form = SearchByPointer>
  bool Insert(Key key, Below* below);
  // The lower node that had the separator; null: there was none.
  template <class Form = SearchByPointer>
  Below* Remove(Key key);
  // Puts `below`, which has the same key, in the place of the lower node that had the separator,
  // and returns that; null: there was none, and nothing is done.
  template <class Form = SearchByPointer>
  Below* Replace(Key key, Below* below);

  // Floor for `count` keys, key_at(i), as floor_each.h says. Calls arrive(i, below) as above, and
  // found(i, below), in order.
  template <class Form, class KeyAt, class Arrive, class Found>
  void FloorEach(size_t count, KeyAt key_at, Arrive arrive, Found found) const;

  // Separators.
  uint64_t size() const { return parts_.size.load(std::memory_order_relaxed); }
  // Searches and changes that began again because something had changed.
  uint64_t restarts() const { return parts_.restarts.load(std::memory_order_relaxed); }
  const NodeStore& nodes() const { return parts_.nodes; }
  Parts& parts() { return parts_; }
  const Parts& parts() const { return parts_; }

 private:
  template <class Form, bool kOrEqual, class Arrive>
  Below* Search(Key key, Arrive arrive) const;
  template <class Try>
  bool Repeat(Try attempt);
  [[gnu::noinline, gnu::cold]] void CountRestart() const {
    parts_.restarts.fetch_add(1, std::memory_order_relaxed);
  }

  Parts parts_;
};

template <class Below, class KeyOf>
template <class Form, bool kOrEqual, class Arrive>
Below* Tree<Below, KeyOf>::Search(Key key, Arrive arrive) const {
  using Its = FloorSearch<Form, Key, Leaves<Below, KeyOf>, kOrEqual>;
  const OptimisticSection section;
  Its search(key, parts_.leaves);
  for (;;) {
    const typename Its::End end = search.Run(parts_.root);
    if (end == Its::End::kFound) [[likely]] {
      Below* below = Leaves<Below, KeyOf>::At(search.result());
      if (below == nullptr) return nullptr;
      arrive(below);
      if (search.shown_by().Holds()) [[likely]]
        return below;
    }
    if (end != Its::End::kMisfit) CountRestart();
  }
}

template <class Below, class KeyOf>
template <class Arrive>
Below* Tree<Below, KeyOf>::Last(Arrive arrive) const {
  const OptimisticSection section;
  for (;; CountRestart()) {
    View view(parts_.root.lock);
    const Child leaf = GreatestLeaf(parts_.root.child.Get(), &view);
    // An empty one is the whole tree, or something has changed on the way.
    const bool right = !leaf.empty() || parts_.root.child.Get().empty();
    if (!right || !view.Holds()) continue;
    Below* below = Leaves<Below, KeyOf>::At(leaf);
    if (below == nullptr) return nullptr;
    arrive(below);
    if (view.Holds()) return below;
  }
}

// True: done. False: it cannot be done.
template <class Below, class KeyOf>
template <class Try>
bool Tree<Below, KeyOf>::Repeat(Try attempt) {
  for (Backoff backoff;; backoff.Pause()) {
    const Attempt result = attempt();
    if (result != Attempt::kChanged) return result == Attempt::kDone;
    CountRestart();
  }
}

template <class Below, class KeyOf>
template <class Form>
bool Tree<Below, KeyOf>::Insert(Key key, Below* below) {
  const bool done = Repeat([&] { return Insertion<Form, Parts>(parts_, key, below).Try(); });
  if (done) parts_.size.fetch_add(1, std::memory_order_relaxed);
  return done;
}

template <class Below, class KeyOf>
template <class Form>
Below* Tree<Below, KeyOf>::Remove(Key key) {
  Child leaf;
  const bool done = Repeat([&] {
    Removal<Form, Parts> removal(parts_, key);
    const Attempt attempt = removal.TryRemove();
    leaf = removal.leaf();
    return attempt;
  });
  if (!done) return nullptr;
  parts_.size.fetch_sub(1, std::memory_order_relaxed);
  return Leaves<Below, KeyOf>::At(leaf);
}

template <class Below, class KeyOf>
template <class Form>
Below* Tree<Below, KeyOf>::Replace(Key key, Below* below) {
  Child leaf;
  const bool done = Repeat([&] {
    Removal<Form, Parts> removal(parts_, key);
    const Attempt attempt = removal.TryReplace(below);
    leaf = removal.leaf();
    return attempt;
  });
  return done ? Leaves<Below, KeyOf>::At(leaf) : nullptr;
}

}  // namespace lodgekv::art
