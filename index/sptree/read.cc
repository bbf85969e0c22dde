#include <bit>

#include "index/node/optimistic_section.h"
#include "index/node/prefetch.h"
#include "index/sptree/lookups.h"
#include "index/sptree/sptree.h"

namespace lodgekv::sptree {

// False: the key is not in the buffer, as of `snapshot`. Inside an OptimisticSection.
template <class C>
bool Lookups<C>::FindInBuffer(const Mnode<C>* leaf, const WriteBuffer& buffer, uint64_t snapshot,
                              const Key& key, Answer* answer) const {
  if (!search_.MayHold(*leaf, key)) return false;
  for (unsigned i = 0; i < buffer.pairs(); ++i) {
    const Pair pair = buffer.PairAt(i);
    if (!tree_.codec.MayMatch(key, pair)) continue;
    const bool tombstone = buffer.IsTombstone(i);
    if (!leaf->lock.Validate(snapshot)) return true;
    if constexpr (C::kRecords) {
      const OptimisticSection::Validated validated;
      if (!tree_.codec.Matches(key, pair)) continue;
    }
    *answer = tombstone ? Answer{Seen::kAbsent} : Answer{Seen::kFound, pair.value};
    return true;
  }
  return false;
}

// Reads one leaf as of `snapshot`. Most keys that are absent end at the filter, in DRAM.
template <class C>
auto Lookups<C>::FindInLeaf(const Mnode<C>* leaf, uint64_t snapshot, const Key& key) const
    -> Answer {
  if (leaf == nullptr) [[unlikely]]
    return {Seen::kAbsent, kDamagedWay};
  tree_.Touch(key);
  const OptimisticSection section;
  if (const WriteBuffer* buffer = leaf->Buffered()) {
    Answer answer;
    if (FindInBuffer(leaf, *buffer, snapshot, key, &answer)) return answer;
  }
  uint64_t slots = search_.Candidates(*leaf, key);
  for (; slots != 0; slots &= slots - 1) {
    const media::Slot& slot = leaf->bnode->slots[std::countr_zero(slots)];
    const Pair pair{slot.key.LoadRelaxed(), tree_.commits.Durable(*leaf, slot.value)};
    if (!tree_.codec.MayMatch(key, pair)) continue;
    if constexpr (C::kRecords) {
      if (C::IsRecord(pair.value)) {
        Prefetch(tree_.pool.template At<char>(C::RecordOf(pair.value)) + pmem::kLineBytes - 1);
      }
      if (!leaf->lock.Validate(snapshot)) return {};
      const OptimisticSection::Validated validated;
      if (!tree_.codec.Matches(key, pair)) continue;
      return {Seen::kFound, pair.value};  // it was when it was validated
    }
    return {leaf->lock.Validate(snapshot) ? Seen::kFound : Seen::kChanged, pair.value};
  }
  return {leaf->lock.Validate(snapshot) ? Seen::kAbsent : Seen::kChanged, 0};
}

template <class C>
template <class Form>
bool Lookups<C>::FindValueWord(const Key& key, uint64_t* value_word) const {
  for (;;) {
    uint64_t snapshot;
    const Mnode<C>* leaf = tree_.top.template Find<Form>(key, &snapshot);
    const Answer answer = FindInLeaf(leaf, snapshot, key);
    if (answer.seen == Seen::kChanged) [[unlikely]]
      continue;
    *value_word = answer.value_word;
    return answer.seen == Seen::kFound;
  }
}

// The Mnode is being fetched, or in the cache.
template <class C>
void Lookups<C>::FetchTags(const Lookup& lookup) const {
  if (lookup.leaf == nullptr) return;
  const OptimisticSection section;
  if (const WriteBuffer* buffer = lookup.leaf->Buffered()) {
    PrefetchLines(buffer, sizeof(WriteBuffer));
  }
  if (search_.MayHold(*lookup.leaf, lookup.key)) Prefetch(lookup.leaf->bnode->tags);
}

template <class C>
void Lookups<C>::FetchSlots(const Lookup& lookup) const {
  if (lookup.leaf == nullptr) return;
  const OptimisticSection section;
  LeafSearch<C>::FetchSlots(*lookup.leaf->bnode, search_.Candidates(*lookup.leaf, lookup.key));
}

template <class C>
template <class Form>
void Lookups<C>::FetchLookups(std::span<Lookup> lookups) const {
  tree_.top.template FindEach<Form>(
      lookups.size(), [&](size_t i) -> const Key& { return lookups[i].key; },
      [&](size_t i, auto* leaf, uint64_t snapshot) {
        lookups[i].leaf = leaf;
        lookups[i].snapshot = snapshot;
      });
  for (const Lookup& lookup : lookups) FetchTags(lookup);
  for (const Lookup& lookup : lookups) FetchSlots(lookup);
  if constexpr (C::kRecords) {
    for (const Lookup& lookup : lookups) {
      if (lookup.leaf != nullptr) search_.FetchRecords(*lookup.leaf, lookup.key);
    }
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
Outcome SpTree<C>::Read(std::span<const std::string_view> keys, std::span<ReadResult> results,
                        const ReadOptions& options) {
  return ReadPoints<C>(lookups_, tree_.values, keys, results, options);
}

template class Lookups<Fixed64Codec>;
template class Lookups<BytesCodec>;
template bool Lookups<BytesCodec>::FindValueWord<SearchByPointer>(const BytesCodec::Key&,
                                                                  uint64_t*) const;
template class SpTree<Fixed64Codec>;
template class SpTree<BytesCodec>;

}  // namespace lodgekv::sptree
