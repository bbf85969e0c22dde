// The search of one node (TLBtree III): wide compares over all of its words, of which those that
// are keys of valid slots count. Their order is in the state word, so the number of smaller keys
// is a key's place.
//
// Thread-safe. A node may be changing: the caller validates, or holds its lock. `Form`:
// node/search_form.h.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstdint>

#include "index/node/optimistic_section.h"
#include "index/node/search_form.h"
#include "index/tlbtree/node_locks.h"

namespace lodgekv::tlbtree {

template <class C>
class NodeSearch {
 public:
  using Node = media::Node<C>;
  using Key = typename C::Key;

  NodeSearch(const pmem::Pool& pool, const C& codec) : pool_(pool), codec_(codec) {}

  // A bit for each slot of a leaf whose first word is the key's.
  template <class Form>
  static uint32_t EqualSlots(const Node* leaf, uint64_t word) {
    return _pext_u32(Form::Compare(WordsOf(leaf), word).equal, kSlotKeys);
  }

  // Sets slot and place of the key in a leaf whose state is `state`, which need not be the one on
  // the medium.
  template <class Form = SearchByPointer>
  void FindPlace(const Node* leaf, const NodeState& state, const Key& key, int* slot,
                 unsigned* place) const;
  // Fetches the records that the search for the key reads. The leaf may be changing.
  void FetchRecords(const Node* leaf, const Key& key) const {
    const OptimisticSection section;
    uint32_t slots = EqualSlots<SearchByPointer>(leaf, key.word);
    slots &= NodeState(leaf->state.LoadRelaxed()).Slots();
    for (; slots != 0; slots &= slots - 1) {
      const Pair pair = PairIn(leaf, static_cast<unsigned>(std::countr_zero(slots)));
      if (codec_.MayMatch(key, pair)) codec_.PrefetchKey(pair);
    }
  }
  // Whether a key, not below the leaf's own bound, is below that of its sibling. The caller holds
  // the leaf's lock, without which nobody unlinks the sibling: so that keeps its bound's record.
  bool Covers(const Node* leaf, const Key& key) const {
    const NodeState state(leaf->state.LoadRelaxed());
    const LinkTo sibling = LoadLink(leaf->sibling[state.alt()]);
    return sibling.node() == 0 || !Target<C>{&key}.Reaches(pool_, sibling.low);
  }

  // The child of a root that covers the target, and its lower bound. `low`: that of the root.
  template <class Form>
  LinkTo ChildFor(const Node* root, const Low& low, const Target<C>& target) const;
  // Its place in the order; 0: the leftmost one.
  template <class Form>
  unsigned ChildPlace(const Node* root, const NodeState& state, const Target<C>& target) const;

 private:
  void FindTied(const Node* leaf, const NodeState& state, const Key& key, uint32_t equal, int* slot,
                unsigned* place) const;
  [[gnu::noinline]] unsigned PlaceAmong(const Node* leaf, const NodeState& state, const Key& key,
                                        uint32_t equal, unsigned place) const;
  static Pair PairIn(const Node* leaf, unsigned slot) {
    return {leaf->slots[slot].key.LoadRelaxed(), leaf->slots[slot].value.LoadRelaxed()};
  }
  // A bit for each word of a node that is the first of a slot, or of a child.
  static constexpr uint32_t EachWord(unsigned count, unsigned words) {
    uint32_t bits = 0;
    for (unsigned i = 0; i < count; ++i)
      bits |= uint32_t{1} << (Node::kHeaderBytes / 8 + words * i);
    return bits;
  }
  static constexpr uint32_t kSlotKeys = EachWord(Node::kSlots, 2);
  static constexpr uint32_t kChildKeys =
      EachWord(Node::kChildren, sizeof(media::Link<C>) / sizeof(uint64_t));

  static const uint64_t* WordsOf(const Node* node) {
    return reinterpret_cast<const uint64_t*>(node);
  }

  const pmem::Pool& pool_;
  const C& codec_;
};

template <class C>
template <class Form>
void NodeSearch<C>::FindPlace(const Node* leaf, const NodeState& state, const Key& key, int* slot,
                              unsigned* place) const {
  const WordMasks masks = Form::Compare(WordsOf(leaf), key.word);
  const uint32_t valid = state.Slots();
  const uint32_t equal = _pext_u32(masks.equal, kSlotKeys) & valid;
  *slot = -1;
  *place = static_cast<unsigned>(std::popcount(_pext_u32(masks.less, kSlotKeys) & valid));
  if (equal == 0) return;
  if constexpr (C::kRecords) {
    FindTied(leaf, state, key, equal, slot, place);
  } else {
    *slot = std::countr_zero(equal);
  }
}

// Among the pairs with the key's first word, `equal`, of which the first one is at `*place`. Which
// of them has the key is asked of each by itself: a damaged record says nothing about the others,
// nor about the place of a key that is not there.
template <class C>
void NodeSearch<C>::FindTied(const Node* leaf, const NodeState& state, const Key& key,
                             uint32_t equal, int* slot, unsigned* place) const {
  for (uint32_t slots = equal; slots != 0; slots &= slots - 1) {
    const int number = std::countr_zero(slots);
    const Pair pair = PairIn(leaf, static_cast<unsigned>(number));
    if (!codec_.MayMatch(key, pair) || !codec_.Matches(key, pair)) continue;
    *slot = number;
    *place = state.PlaceOf(static_cast<unsigned>(number));
    return;
  }
  *place = PlaceAmong(leaf, state, key, equal, *place);
}

// Of a key that none of them has.
template <class C>
unsigned NodeSearch<C>::PlaceAmong(const Node* leaf, const NodeState& state, const Key& key,
                                   uint32_t equal, unsigned place) const {
  for (; place < state.count(); ++place) {
    const unsigned number = state.SlotAt(place);
    if ((equal >> number & 1) == 0) break;
    const Pair pair = PairIn(leaf, number);
    char scratch[8];
    if (codec_.KeyText(pair, scratch) > key.text && codec_.KeyFits(pair)) break;
  }
  return place;
}

template <class C>
template <class Form>
unsigned NodeSearch<C>::ChildPlace(const Node* root, const NodeState& state,
                                   const Target<C>& target) const {
  if (target.key == nullptr) return state.count();
  const uint64_t word = target.key->word;
  if constexpr (C::kRecords) {
    const uint32_t valid = state.Slots();
    const WordMasks masks = Form::Compare(WordsOf(root), word);
    const uint32_t equal = _pext_u32(masks.equal, kChildKeys) & valid;
    unsigned at = static_cast<unsigned>(std::popcount(_pext_u32(masks.less, kChildKeys) & valid));
    for (; equal != 0 && at < state.count(); ++at) {
      const unsigned slot = state.SlotAt(at);
      if ((equal >> slot & 1) == 0) break;
      if (!target.Reaches(pool_, LoadLow<C>(root->children[slot].low))) break;
    }
    return at;
  } else {
    if (target.before && word == 0) return 0;
    const uint64_t limit = target.before ? word - 1 : word;
    const uint32_t reached = _pext_u32(Form::NotAbove(WordsOf(root), limit), kChildKeys);
    return static_cast<unsigned>(std::popcount(reached & state.Slots()));
  }
}

template <class C>
template <class Form>
LinkTo NodeSearch<C>::ChildFor(const Node* root, const Low& low, const Target<C>& target) const {
  const NodeState state(root->state.Load());
  const unsigned place = ChildPlace<Form>(root, state, target);
  if (place == 0) return {low, root->leftmost.LoadRelaxed()};
  // A root that is being replaced may have any state.
  return LoadLink(root->children[std::min(state.SlotAt(place - 1), Node::kChildren - 1)]);
}

}  // namespace lodgekv::tlbtree
