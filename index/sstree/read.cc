#include <bit>

#include "index/node/optimistic_section.h"
#include "index/node/prefetch.h"
#include "index/sstree/lookups.h"
#include "index/sstree/sstree.h"

namespace lodgekv::sstree {

// kAbsent: none of the slots has the key; not validated.
template <class C>
auto Lookups<C>::FindInSubnode(const Leaf* leaf, uint64_t snapshot, const media::Subnode& subnode,
                               uint32_t slots, const Key& key) const -> Answer {
  for (; slots != 0; slots &= slots - 1) {
    const media::Slot& slot = subnode.slots[std::countr_zero(slots)];
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
  return {Seen::kAbsent, 0};
}

// Reads one leaf as of `snapshot`.
template <class C>
auto Lookups<C>::FindInLeaf(const Leaf* leaf, uint64_t snapshot, const Key& key) const -> Answer {
  tree_.Touch(key);
  const OptimisticSection section;
  const media::Subnode* head = tree_.HeadOf(*leaf);
  const uint32_t slots = search_.HeadCandidates(*leaf, key);
  if (slots != 0) {
    const Answer answer = FindInSubnode(leaf, snapshot, *head, slots, key);
    if (answer.seen != Seen::kAbsent) return answer;
  }
  if (search_.MayOverflow(*leaf, key)) [[unlikely]]
    return FindInOverflow(leaf, snapshot, head, key);
  return {leaf->lock.Validate(snapshot) ? Seen::kAbsent : Seen::kChanged, 0};
}

// A next pointer is followed only in a leaf that has not changed: elsewhere it may be anything.
template <class C>
auto Lookups<C>::FindInOverflow(const Leaf* leaf, uint64_t snapshot, const media::Subnode* head,
                                Key key) const -> Answer {
  const OptimisticSection section;
  const media::Subnode* before = head;
  const uint64_t valid = tree_.commits.Durable(*leaf, head->word) & media::kValidMask;
  const unsigned subnodes = leaf->place.subnodes();
  for (unsigned i = 1; i < subnodes && valid >> i * kSubnodeSlots != 0; ++i) {
    const uint32_t slots = search_.OverflowCandidates(*before, SlotsOf(valid, i), key);
    if (slots == 0 && valid >> (i + 1) * kSubnodeSlots == 0) break;
    const pmem::Offset next = before->next.Load() & kCheckedMask;
    if (!leaf->lock.Validate(snapshot) || next < pmem::kBlockBytes) return {};
    before = tree_.SubnodeAt(next);
    const Answer answer = FindInSubnode(leaf, snapshot, *before, slots, key);
    if (answer.seen != Seen::kAbsent) return answer;
  }
  return {leaf->lock.Validate(snapshot) ? Seen::kAbsent : Seen::kChanged, 0};
}

template <class C>
template <class Form>
bool Lookups<C>::FindValueWord(const Key& key, uint64_t* value_word) const {
  for (;;) {
    uint64_t snapshot;
    const Leaf* leaf = tree_.inner.template Descend<Form>(key, &snapshot);
    const Answer answer = FindInLeaf(leaf, snapshot, key);
    if (answer.seen == Seen::kChanged) [[unlikely]]
      continue;
    *value_word = answer.value_word;
    return answer.seen == Seen::kFound;
  }
}

// The leaf is being fetched, or in the cache.
template <class C>
void Lookups<C>::FetchSlots(const Lookup& lookup) const {
  const OptimisticSection section;
  const media::Subnode* head = tree_.HeadOf(*lookup.leaf);
  uint32_t slots = search_.HeadCandidates(*lookup.leaf, lookup.key);
  if (search_.MayOverflow(*lookup.leaf, lookup.key)) Prefetch(head);
  for (; slots != 0; slots &= slots - 1) Prefetch(&head->slots[std::countr_zero(slots)]);
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
  for (const Lookup& lookup : lookups) FetchSlots(lookup);
  if constexpr (C::kRecords) {
    for (const Lookup& lookup : lookups) {
      search_.FetchRecords(*lookup.leaf, lookup.snapshot, lookup.key);
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
Outcome SsTree<C>::Read(std::span<const std::string_view> keys, std::span<ReadResult> results,
                        const ReadOptions& options) {
  return ReadPoints<C>(lookups_, tree_.values, keys, results, options);
}

template class Lookups<Fixed64Codec>;
template class Lookups<BytesCodec>;
template class SsTree<Fixed64Codec>;
template class SsTree<BytesCodec>;

}  // namespace lodgekv::sstree
