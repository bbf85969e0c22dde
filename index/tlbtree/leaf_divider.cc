#include "index/tlbtree/leaf_divider.h"

#include <algorithm>
#include <span>

#include "index/node/separator.h"
#include "index/tlbtree/descent.h"

namespace lodgekv::tlbtree {

namespace {

// The words decide: no record is read, which may be uncached, or damaged.
std::string BetweenWords(uint64_t left, uint64_t right) {
  char scratch_left[8];
  char scratch_right[8];
  StoreBigEndian(left, scratch_left);
  StoreBigEndian(right, scratch_right);
  return std::string(ShortestSeparator({scratch_left, 8}, {scratch_right, 8}));
}

}  // namespace

template <class C>
std::string LeafDivider<C>::TextBetween(Pair left, Pair right) const {
  if constexpr (C::kRecords) {
    if (left.key != right.key) return BetweenWords(left.key, right.key);
    char scratch_left[8];
    char scratch_right[8];
    return std::string(ShortestSeparator(tree_.codec.KeyText(left, scratch_left),
                                         tree_.codec.KeyText(right, scratch_right)));
  } else {
    return C::TextOf(right.key);
  }
}

// The bound of a leaf that begins with a new key.
template <class C>
std::string LeafDivider<C>::TextBelow(Pair left, const Key& key) const {
  if constexpr (C::kRecords) {
    if (left.key != key.word) return BetweenWords(left.key, key.word);
    char scratch[8];
    return std::string(ShortestSeparator(tree_.codec.KeyText(left, scratch), key.text));
  } else {
    return C::TextOf(key);
  }
}

// A damaged record may have any key. That says nothing about the other pairs, whose order is
// believed; nor may it decide what the bound is.
template <class C>
bool LeafDivider<C>::Divides(const Left& left, const Border& border) const {
  if constexpr (C::kRecords) {
    char low[8];
    char high[8];
    const bool inside =
        border.text > TextOfLow(tree_.pool, left.low, low) &&
        (left.high.node() == 0 || border.text < TextOfLow(tree_.pool, left.high.low, high));
    if (!inside) return false;
    const uint64_t word = KeyWord(border.text, 0);
    for (unsigned place = 0; place < left.state.count(); ++place) {
      const Pair pair = PairAt(left, place);
      const bool stays = place < border.stay;
      const bool fits =
          pair.key == word ? TiedIsOnItsSide(pair, place, border) : (pair.key < word) == stays;
      if (!fits) return false;
    }
  }
  return true;
}

// Of a pair whose first word leaves that open the record decides, if it is sound. A damaged one is
// where it was put when it was sound, between its neighbours: they decide, if the bound is not
// beside it.
template <class C>
bool LeafDivider<C>::TiedIsOnItsSide(Pair pair, unsigned place, const Border& border) const {
  if constexpr (C::kRecords) {
    if (!tree_.codec.KeyFits(pair)) return place + 1 != border.stay && place != border.stay;
  }
  return (tree_.KeyOf(pair) < border.text) == (place < border.stay);
}

// The bound of a sub-index's first leaf is that of the anchor, whose record goes with the anchor,
// perhaps before the leaf changes. So it is looked up again, by a caller in an EpochGuard. A leaf
// that is not linked yet has a record of its own. False: something is damaged on the way.
template <class C>
bool LeafDivider<C>::FindLow(const Key& key, Left* left) const {
  if (RecordOfLow<C>(left->low) == 0) return true;
  LeafPlace<C> place;
  Descent<C>(tree_).ToLeaf(Target<C>{&key}, &place);
  if (place.leaf == left->leaf) left->low = place.low;
  return place.leaf != nullptr;
}

// From the middle outwards.
template <class C>
bool LeafDivider<C>::ChooseBorder(const Left& left, const Key& key, unsigned place,
                                  Border* border) const {
  const unsigned count = left.state.count();
  if (place == count) {
    *border = {count, TextBelow(PairAt(left, count - 1), key)};
    if (Divides(left, *border)) return true;
  }
  const unsigned half = count / 2;
  for (unsigned away = 0; away < half; ++away) {
    for (const unsigned at : {half - away, half + away}) {
      *border = {at, TextBetween(PairAt(left, at - 1), PairAt(left, at))};
      if (Divides(left, *border)) return true;
    }
  }
  return false;
}

// Beside the new key, so that the bound is not much longer than that.
template <class C>
bool LeafDivider<C>::DivideAtKey(const Left& left, const Key& key, unsigned place,
                                 Border* border) const {
  border->stay = place;
  if (place > 0) {
    border->text = TextBelow(PairAt(left, place - 1), key);
  } else if constexpr (C::kRecords) {
    const Pair first = PairAt(left, 0);
    char scratch[8];
    if (first.key != key.word) {
      border->text = BetweenWords(key.word, first.key);
    } else {
      border->text = ShortestSeparator(key.text, tree_.codec.KeyText(first, scratch));
    }
  }
  return Divides(left, *border);
}

// The second one is for a pool in which the first one's bound finds no room. Returns how many there
// are; 0: something is damaged.
template <class C>
unsigned LeafDivider<C>::Borders(const Left& found, const Key& key, unsigned place,
                                 Border (&borders)[2]) const {
  const TextGuard<C> guard;
  Left left = found;
  if (!FindLow(key, &left) || !ChooseBorder(left, key, place, &borders[0])) return 0;
  if constexpr (C::kRecords) {
    if (borders[0].text.size() > sizeof(uint64_t) && DivideAtKey(left, key, place, &borders[1])) {
      return 2;
    }
  }
  return 1;
}

// With the space that a batch has set aside, if there is no other. That is for its long keys: a
// short one has a second border, whose bound needs no record.
template <class C>
bool LeafDivider<C>::MakeLowOf(Worker& worker, const Key& key, const std::string& text,
                               pmem::ReservePolicy policy, Low* low) {
  if (MakeLow(tree_, text, policy, low)) return true;
  if constexpr (C::kRecords) {
    const uint64_t bytes = worker.spare_low_bytes;
    if (key.text.size() < sizeof(uint64_t) || worker.spare_lows.empty() ||
        RecordBytes(text.size(), 0, false) > bytes) {
      return false;
    }
    *low = MakeLowIn(tree_, worker.spare_lows.back(), bytes, text);
    worker.spare_lows.pop_back();
    return true;
  }
  return false;
}

template <class C>
Outcome LeafDivider<C>::Divide(Worker& worker, const Left& left, const Key& key, unsigned place,
                               Division* made) {
  Border borders[2];
  const unsigned count = Borders(left, key, place, borders);
  if (count == 0) return Outcome::kDataLoss;
  const pmem::Offset right = tree_.Known(tree_.space.Take(worker.spare_leaves));
  if (right == 0) return Outcome::kPoolFull;
  const auto policy = worker.has_set_aside ? pmem::ReservePolicy::kUse : tree_.space.reserve();
  for (const Border& border : std::span(borders, count)) {
    if (!MakeLowOf(worker, key, border.text, policy, &made->low)) continue;
    made->right = tree_.NodeAt(right);
    made->stay = border.stay;
    if constexpr (C::kRecords) {
      made->goes_right = border.text <= key.text;
    } else {
      made->goes_right = made->low.word <= key.word;
    }
    return Outcome::kOk;
  }
  tree_.nodes.Free(right);
  return Outcome::kPoolFull;
}

template <class C>
void LeafDivider<C>::StoreRight(const Left& left, const Division& made, const Pair* added,
                                unsigned place, bool flush) {
  NodeImage<C> image;
  image.SetSibling(0, left.high);
  const unsigned count = left.state.count() - made.stay + (added != nullptr ? 1 : 0);
  unsigned at = made.stay;
  image.SetPairs(count, tree_.parameters.leaf_slots, [&](unsigned i) {
    const bool is_added = added != nullptr && at == place && i == at - made.stay;
    return is_added ? *added : PairAt(left, at++);
  });
  image.StoreTo(tree_.medium, made.right);
  if (flush) image.Flush(tree_.medium, made.right);
}

template class LeafDivider<Fixed64Codec>;
template class LeafDivider<BytesCodec>;

}  // namespace lodgekv::tlbtree
