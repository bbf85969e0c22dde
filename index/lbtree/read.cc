#include <bit>

#include "index/lbtree/lbtree.h"
#include "index/lbtree/lookups.h"
#include "index/node/optimistic_section.h"
#include "index/node/prefetch.h"

namespace lodgekv::lbtree {

// Reads one leaf as of `snapshot`.
template <class C>
template <typename Lookups<C>::LeafKind kKind>
auto Lookups<C>::FindInLeafOf(const media::Block* leaf, uint64_t snapshot, const Key& key) const
    -> Answer {
  constexpr bool kOneBlock = kKind == LeafKind::kOneBlock;
  const VersionLock& lock = tree_.locks.Of(leaf);
  const OptimisticSection section;
  const LeafView view = kOneBlock ? LeafView::OfOneBlock(leaf) : tree_.locks.ViewOf(leaf);
  for (unsigned b = 0; b < (kOneBlock ? 1 : tree_.blocks); ++b) {
    uint32_t slots =
        kOneBlock ? search_.ByFingerprint(view, b, key) : search_.Candidates(view, b, key);
    for (; slots != 0; slots &= slots - 1) {
      const Pair pair = view.PairAt(b, static_cast<unsigned>(std::countr_zero(slots)));
      if (!tree_.codec.MayMatch(key, pair)) continue;
      if constexpr (C::kRecords) {
        if (C::IsRecord(pair.value)) {
          Prefetch(tree_.pool.template At<char>(C::RecordOf(pair.value)) + pmem::kLineBytes - 1);
        }
        if (!lock.Validate(snapshot)) return {};
        const OptimisticSection::Validated validated;
        if (!tree_.codec.Matches(key, pair)) continue;
        return {Seen::kFound, pair.value};  // it was when it was validated
      }
      return {lock.Validate(snapshot) ? Seen::kFound : Seen::kChanged, pair.value};
    }
  }
  return {lock.Validate(snapshot) ? Seen::kAbsent : Seen::kChanged, 0};
}

template <class C>
template <class Form>
bool Lookups<C>::FindValueWord(const Key& key, uint64_t* value_word) const {
  for (;;) {
    uint64_t snapshot;
    const media::Block* leaf = tree_.inner.template Descend<Form>(key, &snapshot);
    const Answer answer = FindInLeaf(leaf, snapshot, key);
    if (answer.seen == Seen::kChanged) [[unlikely]]
      continue;
    *value_word = answer.value_word;
    return answer.seen == Seen::kFound;
  }
}

template <class C>
template <class Form>
void Lookups<C>::FetchLookups(std::span<Lookup> lookups) const {
  tree_.inner.template DescendEach<Form>(
      lookups.size(), [&](size_t i) -> const Key& { return lookups[i].key; },
      [&](size_t i, auto* leaf, uint64_t snapshot) {
        lookups[i].leaf = leaf;
        lookups[i].snapshot = snapshot;
      });
  if constexpr (C::kRecords) {
    for (const Lookup& lookup : lookups) search_.FetchRecords(lookup.leaf, lookup.key);
  }
}

template <class C>
template <class Form>
bool Lookups<C>::FinishLookup(const Lookup& lookup, uint64_t* value_word) const {
  const Answer answer = FindInLeaf(lookup.leaf, lookup.snapshot, lookup.key);
  if (answer.seen != Seen::kChanged) [[likely]] {
    *value_word = answer.value_word;
    return answer.seen == Seen::kFound;
  }
  return FindValueWord<SearchByPointer>(lookup.key, value_word);
}

template <class C>
Outcome LbTree<C>::Read(std::span<const std::string_view> keys, std::span<ReadResult> results,
                        const ReadOptions& options) {
  return ReadPoints<C>(lookups_, tree_.values, keys, results, options);
}

template class Lookups<Fixed64Codec>;
template class Lookups<BytesCodec>;
template class LbTree<Fixed64Codec>;
template class LbTree<BytesCodec>;

}  // namespace lodgekv::lbtree
