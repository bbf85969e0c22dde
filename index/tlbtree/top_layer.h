// The top layer (TLBtree III): where the search for a sub-index begins. It is the first of the two
// seats of the tree; what the other one, the bottom layer, asks of it is the concept below.
//
// New sub-indices go into the gaps of its leaf nodes. One that finds none is reached sideways, from
// the one to its left. When enough steps were made sideways, the array is built anew in the
// background (top_rebuild.h) and replaces this one (node/two_generations.h).
//
// Thread-safe. First and Before are called inside an EpochGuard.
#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "index/node/optimistic_section.h"
#include "index/node/prefetch.h"
#include "index/node/search_form.h"
#include "index/node/two_generations.h"
#include "index/tlbtree/fence.h"
#include "index/tlbtree/top_view.h"

namespace lodgekv::tlbtree {

// What the bottom layer asks of whatever has the top seat:
//   First   an anchor at or to the left of the target, as far as the layer knows; or 0
//   Before  the anchor to the left of the one that First or Before has returned; 0: there is none
//   Add     a sub-index is new
//   Drop    a sub-index is dead: its anchor is freed once nothing in the layer leads to it
template <class Top, class C>
concept TopSeat = requires(Top& top, const Top& looked_at, const Target<C>& target,
                           typename Top::Start* start, pmem::Offset anchor) {
  { looked_at.template First<SearchByPointer>(target, start) } -> std::same_as<pmem::Offset>;
  { looked_at.Before(start) } -> std::same_as<pmem::Offset>;
  top.Add(anchor);
  top.Drop(anchor);
};

template <class C>
class TopLayer {
 public:
  // Where a search came out.
  struct Start {
    const TopView* view = nullptr;
    uint64_t node = 0;
    int slot = 0;
    BlockHint hint;  // of the anchor that First has returned, if Before was not called
  };
  // For a new array.
  struct Entry {
    pmem::Offset anchor;
    Low low;
  };

  // What is in DRAM beside an array.
  struct Beside {
    bool shortcuts;
    bool root_hints;
  };

  TopLayer(pmem::Pool& pool, pmem::RecordSlab& slab, Reclaimer& reclaimer, pmem::Word& root,
           Beside beside)
      : pool_(pool),
        reclaimer_(reclaimer),
        beside_(beside),
        generations_(pool, slab, reclaimer, root) {}
  ~TopLayer() { delete view_.load(std::memory_order_relaxed); }
  TopLayer(const TopLayer&) = delete;
  TopLayer& operator=(const TopLayer&) = delete;

  template <class Form>
  pmem::Offset First(const Target<C>& target, Start* start) const;
  pmem::Offset Before(Start* start) const;
  void Add(pmem::Offset anchor);
  void Drop(pmem::Offset anchor);

  // --- rebuild (top_rebuild.h), by one thread ---
  // From here on what is added is remembered. Returns the anchors dropped so far, or none: then
  // they are kept.
  std::vector<pmem::Offset> BeginRebuild(bool take_dropped);
  // Replaces the array by one over `entries`, which ascend. False: there is no room, or a sync has
  // failed; then nothing has changed. Not inside an EpochGuard.
  bool Replace(const std::vector<Entry>& entries, unsigned gaps);
  // `dropped`: what BeginRebuild returned, if the array was not replaced.
  void EndRebuild(std::vector<pmem::Offset> dropped);

  // --- recovery ---
  absl::Status Recover(std::string_view engine);
  // Calls visit(anchor) for each entry of the current array; 0 for one with wrong check bits.
  template <class Visit>
  void ForEach(Visit visit) const;

  uint64_t space_bytes() const { return generations_.space_bytes(); }
  uint64_t dram_bytes() const { return dram_bytes_.load(std::memory_order_relaxed); }
  // Recover has found the array damaged.
  bool lost() const { return lost_; }
  uint64_t entries() const { return entries_.load(std::memory_order_relaxed); }
  // Of dead anchors that are not freed yet.
  size_t dropped() const { return dropped_count_.load(std::memory_order_relaxed); }
  // With the mutex held: for Check.
  std::vector<pmem::Offset> DroppedAnchors() const;

 private:
  const media::Anchor& AnchorAt(pmem::Offset offset) const {
    return *pool_.At<media::Anchor>(offset);
  }
  Low LowOf(pmem::Offset anchor) const {
    return {AnchorAt(anchor).low.LoadRelaxed(), AnchorAt(anchor).low_meta.LoadRelaxed()};
  }
  uint64_t WordOf(const Low& low, std::string_view prefix, bool* fits) const;
  // What the key is in the view's array.
  static uint64_t WordIn(const TopView& view, const typename C::Key& key) {
    if constexpr (C::kRecords) {
      return KeyWord(key.text, view.prefix().size());
    } else {
      return key.word;
    }
  }
  template <class Form, unsigned kWords, class AnchorOf>
  unsigned Rank(const TopView& view, const uint64_t* words, unsigned used, const Target<C>& target,
                AnchorOf anchor_of) const;
  template <class Form>
  pmem::Offset Find(const TopView& view, const Target<C>& target, Start* start) const;
  template <class Form>
  uint64_t LeafFor(const TopView& view, const Target<C>& target) const;
  void Insert(const TopView& view, pmem::Offset anchor);
  bool InsertInto(const TopView& view, uint64_t node, unsigned slot, uint64_t word,
                  pmem::Offset anchor);
  void BeginSpare(const TopView& view, uint64_t node, uint64_t word, pmem::Offset anchor);
  void Publish(TopView view);

  pmem::Pool& pool_;
  Reclaimer& reclaimer_;
  const Beside beside_;
  TwoGenerations generations_;
  std::atomic<const TopView*> view_{nullptr};  // null: there is no array
  std::atomic<uint64_t> entries_{0};
  std::atomic<uint64_t> dram_bytes_{0};
  bool lost_ = false;
  mutable std::mutex mutex_;  // of Add and Drop
  bool rebuilding_ = false;
  std::vector<pmem::Offset> added_;    // while rebuilding_
  std::vector<pmem::Offset> dropped_;  // dead anchors, not freed yet
  // Its size: whoever wants that only must not wait for a fence, as a mutex does.
  std::atomic<size_t> dropped_count_{0};
};

// The number of words, of the first `used`, that are not to the right of the target.
// `anchor_of(i)`: the anchor of the i-th one, whose bound decides between equal words.
template <class C>
template <class Form, unsigned kWords, class AnchorOf>
unsigned TopLayer<C>::Rank(const TopView& view, const uint64_t* words, unsigned used,
                           const Target<C>& target, AnchorOf anchor_of) const {
  const uint32_t valid = used >= 32 ? ~uint32_t{0} : (uint32_t{1} << used) - 1;
  if (target.key == nullptr) {
    return static_cast<unsigned>(std::popcount(Form::NotAbove(words, kTopUnused - 1) & valid));
  }
  if constexpr (C::kRecords) {
    const WordMasks masks = Form::Compare(words, WordIn(view, *target.key));
    unsigned rank = static_cast<unsigned>(std::popcount(masks.less & valid));
    unsigned end = rank + static_cast<unsigned>(std::popcount(masks.equal & valid));
    while (rank < end) {
      const unsigned middle = (rank + end) / 2;
      const pmem::Offset anchor = anchor_of(middle);
      if (anchor != 0 && target.Reaches(pool_, LowOf(anchor))) {
        rank = middle + 1;
      } else {
        end = middle;
      }
    }
    return rank;
  } else {
    const uint64_t word = target.key->word;
    if (target.before && word == 0) return 0;
    const uint64_t limit = std::min(target.before ? word - 1 : word, kTopUnused - 1);
    return static_cast<unsigned>(
        std::popcount(Form::template NotAbove<kWords>(words, limit) & valid));
  }
}

template <class C>
template <class Form>
uint64_t TopLayer<C>::LeafFor(const TopView& view, const Target<C>& target) const {
  unsigned level = 0;
  uint64_t node = 0;
  if (target.key != nullptr && !target.before) {
    const auto start = view.StartFor(WordIn(view, *target.key));
    level = start.level;
    node = start.number;
  }
  for (; level < view.levels(); ++level) {
    const uint64_t first = node * kTopFanout;
    const uint64_t children = view.children(level);
    // Words behind the last child are above all keys of `fixed64`, if none is damaged.
    unsigned used = kTopFanout;
    if constexpr (C::kRecords)
      used = static_cast<unsigned>(std::min(used + first, children) - first);
    const uint64_t below = TopShape::LeavesBelow(view.levels(), level);
    const unsigned rank =
        Rank<Form, kTopFanout>(view, view.NodeAt(level, node), used, target,
                               [&](unsigned i) { return view.AnchorAt((first + i) * below, 0); });
    node = std::min(first + (rank == 0 ? 0 : rank - 1), children - 1);
  }
  return node;
}

template <class C>
template <class Form>
pmem::Offset TopLayer<C>::First(const Target<C>& target, Start* start) const {
  const TopView* view = view_.load(std::memory_order_acquire);
  start->view = view;
  start->hint = {};  // a caller may use it for one key after another
  if (view == nullptr) return 0;
  const OptimisticSection section;
  if constexpr (C::kRecords) {
    if (target.key != nullptr) {
      const std::string_view text = target.key->text;
      const int order = text.substr(0, view->prefix().size()).compare(view->prefix());
      if (order < 0) {
        start->node = 0;
        start->slot = 1;
        return Before(start);
      }
      if (order > 0) return Find<Form>(*view, Target<C>{nullptr}, start);
    }
  }
  return Find<Form>(*view, target, start);
}

template <class C>
template <class Form>
pmem::Offset TopLayer<C>::Find(const TopView& view, const Target<C>& target, Start* start) const {
  const uint64_t node = LeafFor<Form>(view, target);
  const media::TopLeaf& leaf = view.LeafAt(node);
  view.hints().Fetch(node);
  Prefetch(&leaf.anchors[0]);
  Prefetch(&leaf.anchors[kTopLeafSlots / 2]);
  const auto* words = reinterpret_cast<const uint64_t*>(leaf.keys);
  const unsigned rank = Rank<Form, kTopLeafSlots>(
      view, words, kTopLeafSlots, target, [&](unsigned i) { return view.AnchorAt(node, i); });
  start->node = node;
  start->slot = static_cast<int>(rank) - 1;
  if (rank != 0) [[likely]] {
    const pmem::Offset anchor = view.AnchorAt(node, rank - 1);
    if (anchor != 0) [[likely]] {
      start->hint = view.hints().At(node, rank - 1);
      return anchor;
    }
  }
  return Before(start);
}

template <class C>
template <class Visit>
void TopLayer<C>::ForEach(Visit visit) const {
  const TopView* view = view_.load(std::memory_order_acquire);
  if (view == nullptr) return;
  for (uint64_t node = 0; node < view->leaf_nodes(); ++node) {
    for (unsigned slot = 0; slot < kTopLeafSlots; ++slot) {
      const uint64_t word = view->LeafAt(node).anchors[slot].LoadRelaxed();
      pmem::Offset anchor;
      if (word != 0) visit(ReadChecked(word, &anchor) ? anchor : 0);
    }
  }
}

}  // namespace lodgekv::tlbtree
