// From the top layer to a leaf: the top layer names an anchor, the anchor leads to the root of its
// sub-index, the root to the leaf. Where any of them does not know of something newer, the rest of
// the way goes sideways: along the anchors, then along the leaves.
//
// INVARIANT: what is returned was connected at the moment of its snapshot: a leaf's lock is read
// before what led to the leaf is validated. So a node that is freed after its unlinking is
// published is never taken for a leaf. Anchors are freed after epochs.
//
// Thread-safe; inside an EpochGuard.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "index/node/optimistic_section.h"
#include "index/node/prefetch.h"
#include "index/tlbtree/node_check.h"
#include "index/tlbtree/tree_state.h"

namespace lodgekv::tlbtree {

// An anchor that covers a target, as of a version of its lock.
struct AnchorPlace {
  pmem::Offset offset = 0;
  uint64_t snapshot = 0;
  AnchorView view;
  BlockHint hint;  // if the top layer named it
};

// A leaf that covers a target. `leaf` is null if something on the way is damaged.
template <class C>
struct LeafPlace {
  media::Node<C>* leaf = nullptr;
  uint64_t snapshot = 0;
  Low low;
  LinkTo high;  // to its right sibling; node 0: none
  // What the descent came by: the root, if there is one, and the anchor after that of the leaf.
  const media::Node<C>* root = nullptr;
  pmem::Offset next_anchor = 0;
  unsigned anchor_steps = 0;  // sideways
  unsigned leaf_steps = 0;
  pmem::Offset damaged = 0;  // what is: an anchor, a root or a leaf
};

template <class C>
class Descent {
 public:
  using Node = media::Node<C>;

  explicit Descent(TreeState<C>& tree) : tree_(tree), check_(tree) {}

  template <class Form = SearchByPointer>
  void ToLeaf(const Target<C>& target, LeafPlace<C>* place) const;
  // The leaf that the layers above know of: the target may be in one to its right. `high` is not
  // set.
  template <class Form>
  void NearLeaf(const Target<C>& target, LeafPlace<C>* place) const;
  // NearLeaf for several keys, a level of all after another: what the next level reads is fetched
  // for all of them at once. Calls found(i, place) for each key_at(i), in order.
  template <class Form, class KeyAt, class Found>
  void NearLeaves(size_t count, KeyAt key_at, Found found) const;
  // The anchor that the top layer knows of: one to its right may cover the target. False: it is
  // damaged.
  bool NearAnchor(const Target<C>& target, AnchorPlace* place) const {
    return StartAt<SearchByPointer>(target, place);
  }
  // Without any step beyond the anchors. False: something is damaged.
  bool ToAnchor(const Target<C>& target, AnchorPlace* place) const;
  // The next live anchor to the right, whatever it covers; offset 0: there is none. False: damaged.
  bool NextLive(const AnchorView& from, AnchorPlace* next) const;
  // An anchor as of one moment. False: it is damaged.
  bool ViewAnchor(pmem::Offset offset, AnchorPlace* place) const;

 private:
  enum class Step : uint8_t { kDone, kChanged, kDamaged };
  using TopStart = typename TopLayer<C>::Start;
  // Keys of NearLeaves that are under way together.
  static constexpr size_t kAtOnce = 8;  // a processor fetches some two dozen lines at once
  struct Way {
    TopStart start;
    pmem::Offset at;
    AnchorPlace anchor;
    bool sound;
  };
  template <class Form>
  bool StartAt(const Target<C>& target, AnchorPlace* place) const;
  void FetchRoot(BlockHint hint) const {
    const pmem::Offset root = hint.block();
    if (root != 0) PrefetchLines(tree_.NodeAt(root), sizeof(Node));
  }
  bool StartFrom(const Target<C>& target, pmem::Offset at, TopStart* start,
                 AnchorPlace* place) const;
  Step Judge(const VersionLock& lock, uint64_t snapshot, const Node* node,
             LeafPlace<C>* place) const;
  bool Sideways(const Target<C>& target, AnchorPlace* place, unsigned* steps) const;
  template <class Form>
  Step Down(const Target<C>& target, const AnchorPlace& anchor, LeafPlace<C>* place) const;
  Step Along(const Target<C>& target, AnchorPlace* anchor, LeafPlace<C>* place, bool* moved) const;
  [[gnu::noinline, gnu::cold]] bool AnchorIsSound(pmem::Offset offset) const;

  TreeState<C>& tree_;
  const NodeCheck<C> check_;
};

template <class C>
bool Descent<C>::ViewAnchor(pmem::Offset offset, AnchorPlace* place) const {
  if (tree_.touch.active() && !tree_.anchors.IsUnit(offset)) [[unlikely]]
    return false;
  const media::Anchor* anchor = tree_.AnchorAt(offset);
  const VersionLock& lock = tree_.locks.Of(anchor);
  place->offset = offset;
  do {
    const OptimisticSection section;
    place->snapshot = lock.ReadBegin();
    place->view = AnchorView::Of(*anchor);
  } while (!lock.Validate(place->snapshot));
  return !tree_.touch.active() || AnchorIsSound(offset);
}

// The anchor named by the top layer, or one to the left of that, if it is not one to start with.
template <class C>
template <class Form>
bool Descent<C>::StartAt(const Target<C>& target, AnchorPlace* place) const {
  TopStart start;
  const pmem::Offset at = tree_.top.template First<Form>(target, &start);
  FetchRoot(start.hint);
  return StartFrom(target, at, &start, place);
}

template <class C>
bool Descent<C>::StartFrom(const Target<C>& target, pmem::Offset at, TopStart* start,
                           AnchorPlace* place) const {
  for (;; at = tree_.top.Before(start)) {
    if (at == 0) [[unlikely]]
      return ViewAnchor(tree_.first_anchor(), place);
    const bool sound = ViewAnchor(at, place);
    if (sound && !place->view.root.dead && target.Reaches(tree_.pool, place->view.low)) [[likely]] {
      place->hint = start->hint;
      return true;
    }
    start->hint = {};
    if (at == tree_.first_anchor()) return sound;
  }
}

template <class C>
bool Descent<C>::NextLive(const AnchorView& from, AnchorPlace* next) const {
  for (pmem::Offset at = from.next;; at = next->view.next) {
    next->offset = at;
    if (at == 0) return true;
    if (!ViewAnchor(at, next)) return false;
    if (!next->view.root.dead) return true;
  }
}

// Moves on to the last anchor that the target reaches. False: something is damaged.
template <class C>
bool Descent<C>::Sideways(const Target<C>& target, AnchorPlace* place, unsigned* steps) const {
  for (AnchorPlace next;; *place = next, ++*steps) {
    if (!NextLive(place->view, &next)) return false;
    if (next.offset == 0 || !target.Reaches(tree_.pool, next.view.low)) return true;
  }
}

template <class C>
bool Descent<C>::ToAnchor(const Target<C>& target, AnchorPlace* place) const {
  unsigned steps = 0;
  return NearAnchor(target, place) && Sideways(target, place, &steps);
}

// A node looks damaged; or it has changed, or is no longer one.
template <class C>
auto Descent<C>::Judge(const VersionLock& lock, uint64_t snapshot, const Node* node,
                       LeafPlace<C>* place) const -> Step {
  if (!lock.Validate(snapshot)) return Step::kChanged;
  place->damaged = tree_.pool.OffsetOf(node);
  return Step::kDamaged;
}

template <class C>
template <class Form>
auto Descent<C>::Down(const Target<C>& target, const AnchorPlace& anchor, LeafPlace<C>* place) const
    -> Step {
  const VersionLock& lock = tree_.locks.Of(tree_.AnchorAt(anchor.offset));
  LinkTo child{anchor.view.low, anchor.view.root.node};
  place->root = nullptr;
  place->next_anchor = anchor.view.next;
  if (anchor.view.root.height > 1) {
    const Node* root = place->root = tree_.NodeAt(anchor.view.root.node);
    anchor.hint.Note(anchor.view.root.node);
    if (tree_.touch.active() && !check_.TouchRoot(root)) [[unlikely]]
      return Judge(lock, anchor.snapshot, root, place);
    const OptimisticSection section;
    child = tree_.search.template ChildFor<Form>(root, anchor.view.low, target);
  }
  Node* leaf = tree_.NodeAt(child.node());
  if (!lock.Validate(anchor.snapshot)) [[unlikely]]
    return Step::kChanged;
  PrefetchLines(leaf, sizeof(Node));
  place->snapshot = tree_.locks.Of(leaf).ReadBegin();
  if (!lock.Validate(anchor.snapshot)) [[unlikely]]
    return Step::kChanged;
  place->leaf = leaf;
  place->low = child.low;
  return Step::kDone;
}

// Looks at the leaf's right bound, and goes on to its sibling if that is reached; first along the
// anchors, once: then `*moved`, and the anchor is another.
template <class C>
auto Descent<C>::Along(const Target<C>& target, AnchorPlace* anchor, LeafPlace<C>* place,
                       bool* moved) const -> Step {
  for (bool first = true;; first = false) {
    const VersionLock& lock = tree_.locks.Of(place->leaf);
    if (tree_.touch.active() && !check_.TouchLeaf(place->leaf)) [[unlikely]]
      return Judge(lock, place->snapshot, place->leaf, place);
    {
      const OptimisticSection section;
      place->high = tree_.locks.ViewOf(place->leaf).sibling();
      if (place->high.node() == 0 || !target.Reaches(tree_.pool, place->high.low)) [[likely]]
        return Step::kDone;
    }
    if (!lock.Validate(place->snapshot)) return Step::kChanged;
    if (first) {
      const unsigned before = place->anchor_steps;
      if (!Sideways(target, anchor, &place->anchor_steps)) {
        place->damaged = anchor->offset;
        return Step::kDamaged;
      }
      *moved = place->anchor_steps != before;
      if (*moved) return Step::kDone;
    }
    Node* next = tree_.NodeAt(place->high.node());
    const uint64_t snapshot = tree_.locks.Of(next).ReadBegin();
    if (!lock.Validate(place->snapshot)) return Step::kChanged;
    place->leaf = next;
    place->snapshot = snapshot;
    place->low = place->high.low;
    ++place->leaf_steps;
  }
}

template <class C>
template <class Form>
void Descent<C>::ToLeaf(const Target<C>& target, LeafPlace<C>* place) const {
  for (;;) {
    AnchorPlace anchor;
    bool moved = true;
    Step step = StartAt<Form>(target, &anchor) ? Step::kDone : Step::kDamaged;
    place->damaged = anchor.offset;
    while (step == Step::kDone && moved) {
      step = Down<Form>(target, anchor, place);
      moved = false;
      if (step == Step::kDone) step = Along(target, &anchor, place, &moved);
    }
    if (step == Step::kDone) [[likely]]
      return;
    if (step == Step::kDamaged) {
      place->leaf = nullptr;
      return;
    }
  }
}

template <class C>
template <class Form>
void Descent<C>::NearLeaf(const Target<C>& target, LeafPlace<C>* place) const {
  for (Step step = Step::kChanged; step == Step::kChanged;) {
    AnchorPlace anchor;
    step = StartAt<Form>(target, &anchor) ? Down<Form>(target, anchor, place) : Step::kDamaged;
    if (step == Step::kDone && tree_.touch.active()) [[unlikely]] {
      if (check_.TouchLeaf(place->leaf)) return;
      step = Judge(tree_.locks.Of(place->leaf), place->snapshot, place->leaf, place);
    }
    if (step == Step::kDamaged) place->leaf = nullptr;
  }
}

template <class C>
template <class Form, class KeyAt, class Found>
void Descent<C>::NearLeaves(size_t count, KeyAt key_at, Found found) const {
  Way ways[kAtOnce];
  for (size_t begin = 0; begin < count; begin += kAtOnce) {
    const size_t end = std::min(count, begin + kAtOnce);
    for (size_t i = begin; i < end; ++i) {
      Way& way = ways[i - begin];
      way.at = tree_.top.template First<Form>(Target<C>{&key_at(i)}, &way.start);
      Prefetch(tree_.AnchorAt(way.at));
      FetchRoot(way.start.hint);
    }
    for (size_t i = begin; i < end; ++i) {
      Way& way = ways[i - begin];
      way.sound = StartFrom(Target<C>{&key_at(i)}, way.at, &way.start, &way.anchor);
      PrefetchLines(tree_.NodeAt(way.anchor.view.root.node), sizeof(Node));
    }
    for (size_t i = begin; i < end; ++i) {
      const Way& way = ways[i - begin];
      const Target<C> target{&key_at(i)};
      LeafPlace<C> place;
      const bool alone = !way.sound || tree_.touch.active() ||
                         Down<Form>(target, way.anchor, &place) != Step::kDone;
      if (alone) [[unlikely]]
        NearLeaf<Form>(target, &place);
      found(i, place);
    }
  }
}

template <class C>
bool Descent<C>::AnchorIsSound(pmem::Offset offset) const {
  return check_.TouchAnchor(offset);
}

}  // namespace lodgekv::tlbtree
