#include "index/tlbtree/top_layer.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <utility>

#include "index/node/epoch.h"

namespace lodgekv::tlbtree {

template <class C>
pmem::Offset TopLayer<C>::Before(Start* start) const {
  if (start->view == nullptr) return 0;
  for (;;) {
    if (--start->slot < 0) {
      if (start->node == 0) return 0;
      --start->node;
      start->slot = kTopLeafSlots - 1;
    }
    const pmem::Offset anchor =
        start->view->AnchorAt(start->node, static_cast<unsigned>(start->slot));
    if (anchor != 0) return anchor;
  }
}

// `*fits`: the bound has the prefix that the array's keys share.
template <class C>
uint64_t TopLayer<C>::WordOf(const Low& low, std::string_view prefix, bool* fits) const {
  if constexpr (C::kRecords) {
    char scratch[8];
    const std::string_view text = TextOfLow(pool_, low, scratch);
    *fits = text.starts_with(prefix);
    return KeyWord(text, prefix.size());
  } else {
    *fits = true;
    return low.word;
  }
}

template <class C>
void TopLayer<C>::Add(pmem::Offset anchor) {
  const std::lock_guard lock(mutex_);
  if (rebuilding_) added_.push_back(anchor);
  const TopView* view = view_.load(std::memory_order_relaxed);
  if (view != nullptr) Insert(*view, anchor);
}

// Under the mutex: an anchor that dies is dropped after this, or is dead already.
template <class C>
void TopLayer<C>::Insert(const TopView& view, pmem::Offset anchor) {
  if (AnchorRoot::Of(AnchorAt(anchor).root.Load()).dead) return;
  const Low low = LowOf(anchor);
  bool fits;
  const uint64_t word = WordOf(low, view.prefix(), &fits);
  if (!fits || word == kTopUnused) return;
  const std::string text = OwnTextOfLow<C>(pool_, low);
  const typename C::Key key = C::MakeKey(text);
  const Target<C> target{&key};
  const uint64_t node = LeafFor<SearchByPointer>(view, target);
  const auto* words = reinterpret_cast<const uint64_t*>(view.LeafAt(node).keys);
  const unsigned rank = Rank<SearchByPointer, kTopLeafSlots>(
      view, words, kTopLeafSlots, target, [&](unsigned i) { return view.AnchorAt(node, i); });
  if (InsertInto(view, node, rank, word, anchor)) entries_.fetch_add(1, std::memory_order_relaxed);
}

// False: the leaf node is full.
template <class C>
bool TopLayer<C>::InsertInto(const TopView& view, uint64_t node, unsigned slot, uint64_t word,
                             pmem::Offset anchor) {
  media::TopLeaf& leaf = view.LeafAt(node);
  pmem::Medium& medium = pool_.medium();
  unsigned used = kTopLeafSlots;
  while (used > 0 && leaf.anchors[used - 1].LoadRelaxed() == 0) --used;
  if (used == kTopLeafSlots) {
    const bool last =
        slot == kTopLeafSlots && node + 1 < view.leaf_nodes() && view.AnchorAt(node + 1, 0) == 0;
    if (last) BeginSpare(view, node + 1, word, anchor);
    return last;
  }
  slot = std::min(slot, used);
  for (unsigned i = used; i > slot; --i) {
    medium.Store(leaf.anchors[i], leaf.anchors[i - 1].LoadRelaxed());
    medium.Store(leaf.keys[i], leaf.keys[i - 1].LoadRelaxed());
  }
  view.hints().Shift(node, slot, used);
  medium.Store(leaf.anchors[slot], CheckedWord(anchor));
  medium.Store(leaf.keys[slot], word);
  medium.Flush(&leaf.anchors[slot], (used + 1 - slot) * sizeof(pmem::Word));
  medium.Flush(&leaf.keys[slot], (used + 1 - slot) * sizeof(pmem::Word));
  return true;
}

// Keys that ascend fill the spare leaf nodes.
template <class C>
void TopLayer<C>::BeginSpare(const TopView& view, uint64_t node, uint64_t word,
                             pmem::Offset anchor) {
  pmem::Medium& medium = pool_.medium();
  media::TopLeaf& leaf = view.LeafAt(node);
  medium.Store(leaf.anchors[0], CheckedWord(anchor));
  medium.Store(leaf.keys[0], word);
  medium.FlushLine(&leaf.anchors[0]);
  medium.FlushLine(&leaf.keys[0]);
  for (unsigned level = view.levels(); level-- > 0;) {
    const uint64_t below = TopShape::LeavesBelow(view.levels(), level);
    if (node % below != 0) break;
    pmem::Word& key = view.KeyAt(level, node / below);
    medium.Store(key, word);
    medium.FlushLine(&key);
  }
}

template <class C>
void TopLayer<C>::Drop(pmem::Offset anchor) {
  const std::lock_guard lock(mutex_);
  if (std::ranges::find(dropped_, anchor) == dropped_.end()) dropped_.push_back(anchor);
  dropped_count_.store(dropped_.size(), std::memory_order_relaxed);
}

template <class C>
std::vector<pmem::Offset> TopLayer<C>::DroppedAnchors() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

// --- rebuild ---

template <class C>
std::vector<pmem::Offset> TopLayer<C>::BeginRebuild(bool take_dropped) {
  const std::lock_guard lock(mutex_);
  rebuilding_ = true;
  added_.clear();
  if (!take_dropped) return {};
  dropped_count_.store(0, std::memory_order_relaxed);
  return std::exchange(dropped_, {});
}

template <class C>
void TopLayer<C>::EndRebuild(std::vector<pmem::Offset> dropped) {
  const std::lock_guard lock(mutex_);
  rebuilding_ = false;
  added_.clear();
  dropped_.insert(dropped_.end(), dropped.begin(), dropped.end());
  dropped_count_.store(dropped_.size(), std::memory_order_relaxed);
}

// What was added meanwhile is missing in `entries`, or not.
template <class C>
void TopLayer<C>::Publish(TopView view) {
  if (beside_.shortcuts) view.DrawShortcuts();
  if (beside_.root_hints) view.MakeHints();
  const auto* made = new TopView(std::move(view));
  const TopView* old;
  {
    const std::lock_guard lock(mutex_);
    old = view_.exchange(made, std::memory_order_acq_rel);
    entries_.store(made->entries(), std::memory_order_relaxed);
    dram_bytes_.store(made->dram_bytes(), std::memory_order_relaxed);
    for (const pmem::Offset anchor : added_) Insert(*made, anchor);
  }
  // It goes with the function, which is called in vain.
  if (old != nullptr) reclaimer_.AfterEpochs([kept = std::shared_ptr<const TopView>(old)] {});
}

template <class C>
absl::Status TopLayer<C>::Recover(std::string_view engine) {
  absl::Status status = generations_.Recover(engine);
  const TwoGenerations::Content content = generations_.Current();
  if (!status.ok() || content.data == nullptr) return status;
  TopView view;
  // A damaged array is not used: the search begins at the first anchor until there is a new one.
  lost_ = !TopView::Read(content.data, content.bytes, pool_.crc_seed(), &view);
  if (!lost_) Publish(std::move(view));
  return absl::OkStatus();
}

template class TopLayer<Fixed64Codec>;
template class TopLayer<BytesCodec>;
static_assert(TopSeat<TopLayer<Fixed64Codec>, Fixed64Codec>);
static_assert(TopSeat<TopLayer<BytesCodec>, BytesCodec>);

}  // namespace lodgekv::tlbtree
