#include <bit>

#include "index/node/epoch.h"
#include "index/node/optimistic_section.h"
#include "index/node/prefetch.h"
#include "index/tlbtree/lookups.h"
#include "index/tlbtree/tlbtree.h"

namespace lodgekv::tlbtree {

// Lookups enter an epoch for what the top layer leads to; where pairs have records the caller has
// entered one, too.

// Reads one leaf as of its snapshot.
template <class C>
template <class Form>
auto Lookups<C>::FindInLeaf(const LeafPlace<C>& place, const Key& key) const -> Answer {
  if (place.leaf == nullptr) [[unlikely]]
    return {Seen::kAbsent, kDamagedWay};
  const VersionLock& lock = tree_.locks.Of(place.leaf);
  const OptimisticSection section;
  const LeafView<C> view = tree_.locks.ViewOf(place.leaf);
  uint32_t slots = NodeSearch<C>::template EqualSlots<Form>(place.leaf, key.word);
  for (; slots != 0; slots &= slots - 1) {
    const auto slot = static_cast<unsigned>(std::countr_zero(slots));
    const Pair pair = view.PairAt(slot);
    if (!tree_.codec.MayMatch(key, pair) || !view.state().Has(slot)) continue;
    if constexpr (C::kRecords) {
      if (C::IsRecord(pair.value)) {
        Prefetch(tree_.pool.template At<char>(C::RecordOf(pair.value)) + pmem::kLineBytes - 1);
      }
      if (!lock.Validate(place.snapshot)) return {};
      const OptimisticSection::Validated validated;
      if (!tree_.codec.Matches(key, pair)) continue;
      return {Seen::kFound, pair.value};  // it was when it was validated
    }
    return {lock.Validate(place.snapshot) ? Seen::kFound : Seen::kChanged, pair.value};
  }
  const LinkTo sibling = view.sibling();
  const bool beyond = sibling.node() != 0 && Target<C>{&key}.Reaches(tree_.pool, sibling.low);
  if (!lock.Validate(place.snapshot)) return {};
  return {beyond ? Seen::kBeyond : Seen::kAbsent};
}

template <class C>
template <class Form>
auto Lookups<C>::FindBeyond(const Key& key) const -> Answer {
  LeafPlace<C> place;
  descent_.template ToLeaf<Form>(Target<C>{&key}, &place);
  tree_.sideways.fetch_add(place.anchor_steps, std::memory_order_relaxed);
  return FindInLeaf<Form>(place, key);
}

template <class C>
template <class Form>
bool Lookups<C>::FindValueWord(const Key& key, uint64_t* value_word) const {
  const EpochGuardOf<Form> guard;
  for (;;) {
    LeafPlace<C> place;
    descent_.template NearLeaf<Form>(Target<C>{&key}, &place);
    Answer answer = FindInLeaf<Form>(place, key);
    if (answer.seen == Seen::kBeyond) [[unlikely]]
      answer = FindBeyond<Form>(key);
    if (answer.seen == Seen::kChanged || answer.seen == Seen::kBeyond) [[unlikely]]
      continue;
    *value_word = answer.value_word;
    return answer.seen == Seen::kFound;
  }
}

template <class C>
template <class Form>
void Lookups<C>::FetchLookups(std::span<Lookup> lookups) const {
  const EpochGuardOf<Form> guard;
  descent_.template NearLeaves<Form>(
      lookups.size(), [&](size_t i) -> const Key& { return lookups[i].key; },
      [&](size_t i, const LeafPlace<C>& place) { lookups[i].place = place; });
  if constexpr (C::kRecords) {
    for (const Lookup& lookup : lookups) {
      if (lookup.place.leaf != nullptr) tree_.search.FetchRecords(lookup.place.leaf, lookup.key);
    }
  }
}

template <class C>
template <class Form>
bool Lookups<C>::FinishLookup(const Lookup& lookup, uint64_t* value_word) const {
  const Answer answer = FindInLeaf<Form>(lookup.place, lookup.key);
  if (answer.seen == Seen::kAbsent || answer.seen == Seen::kFound) [[likely]] {
    *value_word = answer.value_word;
    return answer.seen == Seen::kFound;
  }
  return FindValueWord<Form>(lookup.key, value_word);
}

template <class C>
Outcome TlbTree<C>::Read(std::span<const std::string_view> keys, std::span<ReadResult> results,
                         const ReadOptions& options) {
  return ReadPoints<C>(lookups_, tree_.values, keys, results, options);
}

template class Lookups<Fixed64Codec>;
template class Lookups<BytesCodec>;
template bool Lookups<BytesCodec>::FindValueWord<SearchByPointer>(const BytesCodec::Key&,
                                                                  uint64_t*) const;
template class TlbTree<Fixed64Codec>;
template class TlbTree<BytesCodec>;

}  // namespace lodgekv::tlbtree
