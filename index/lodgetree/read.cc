// Read: optimistic, without locks, fences or writes.
//
// Buffered pairs are found by the words of the node's first four lines, the others by the leaf's
// mirror in DRAM, so an absent key is usually known without accessing the medium. Where records are
// mirrored too (record_mirror.h), all that is read of the medium is the record. The result is valid
// only after the node's version has been validated; a record is read only then, inside an epoch.
//
// Several keys are looked up together, in stages: each stage prefetches what the next one reads,
// while it works on the other keys. The early stages only prefetch; the last one finds and
// validates the answer, as for a single key.
#include <bit>

#include "index/lodgetree/lodgetree.h"
#include "index/node/optimistic_section.h"
#include "index/node/point_reads.h"
#include "index/node/prefetch.h"

namespace lodgekv::lodgetree {

// Looks at the records of the candidates `*slots` and leaves none of them there but those that only
// the slot can decide: their record has the key's hash and another key, or is damaged. `*valid` is
// false if the node has changed meanwhile.
template <class C>
template <class Form>
bool LodgeTree<C>::FindMirrored(const Node* node, uint64_t snapshot, unsigned leaf, const Key& key,
                                uint32_t* slots, bool* valid,
                                uint64_t* value_word) const requires C::kRecords {
  const RecordMirror& mirror = *node->record_mirror();
  for (uint32_t left = *slots; left != 0; left &= left - 1) {
    const auto slot = static_cast<unsigned>(std::countr_zero(left));
    const uint64_t word = mirror.WordAt(leaf, slot);
    if (!parts_.record_words.MayHave(word, key.hash)) {
      *slots &= ~(uint32_t{1} << slot);
      continue;
    }
    const pmem::Offset record = parts_.record_words.RecordOf(word);
    Prefetch(parts_.pool.template At<char>(record) + pmem::kLineBytes - 1);
    *valid = node->lock.Validate(snapshot);
    if (!*valid) return false;
    const OptimisticSection::Validated validated;
    if (SameText(KeyOfRecord(parts_.pool, record), key.text)) {
      *value_word = C::RecordWord(key.word, record, key.hash);
      return true;
    }
  }
  return false;
}

// Searches one node as of `snapshot`. False: the node has changed meanwhile.
template <class C>
template <class Form>
bool LodgeTree<C>::FindInNode(const Node* node, uint64_t snapshot, const Key& key, bool* found,
                              uint64_t* value_word) const {
  *found = false;
  const OptimisticSection section;
  const auto position = node->template Search<Form>(key);
  // Decided if true, with or without `*found`. A candidate's record may be read once validated;
  // then its pair was there, and need not be validated again.
  const auto is_key = [&](Pair pair, bool* valid) {
    if (!parts_.codec.MayMatch(key, pair)) return false;
    if constexpr (C::kRecords) {
      // The line after the header's holds the value; the header's line is read next.
      if (C::IsRecord(pair.value)) {
        Prefetch(parts_.pool.template At<char>(C::RecordOf(pair.value)) + pmem::kLineBytes - 1);
      }
      *valid = node->lock.Validate(snapshot);
      const OptimisticSection::Validated validated;
      return *valid && parts_.codec.Matches(key, pair);
    }
    return true;
  };
  bool valid = true;
  for (uint32_t hits = position.hits; hits != 0 && valid; hits &= hits - 1) {
    const auto i = static_cast<unsigned>(std::countr_zero(hits));
    const Pair pair = node->BufferedPair(i);
    const bool tombstone = node->IsTombstone(i);
    if (!is_key(pair, &valid)) continue;
    *found = !tombstone;
    *value_word = pair.value;
    return C::kRecords || node->lock.Validate(snapshot);
  }
  uint32_t slots = node->mirrors[position.leaf].Candidates(FingerprintOf(key.hash));
  if constexpr (C::kRecords) {
    if (slots != 0 && valid && node->record_mirror() != nullptr) {
      *found = FindMirrored<Form>(node, snapshot, position.leaf, key, &slots, &valid, value_word);
      if (*found) return true;
    }
  }
  const pmem::Offset offset = node->values[position.leaf];
  // An address that may not be a leaf's is not followed.
  if (slots != 0) valid = node->lock.Validate(snapshot);
  const auto* leaf = slots != 0 && valid ? parts_.pool.template At<media::Leaf>(offset) : nullptr;
  for (; slots != 0 && valid; slots &= slots - 1) {
    const Pair pair = SlotPair(leaf, static_cast<unsigned>(std::countr_zero(slots)));
    if (!is_key(pair, &valid)) continue;
    *found = true;
    *value_word = pair.value;
    return C::kRecords || node->lock.Validate(snapshot);
  }
  return valid && node->lock.Validate(snapshot);
}

template <class C>
template <class Form>
bool LodgeTree<C>::FindValueWord(const Key& key, uint64_t* value_word) const {
  for (;;) {
    uint64_t snapshot;
    const Node* node = parts_.tree.template Descend<Form>(key, &snapshot);
    bool found;
    if (FindInNode<Form>(node, snapshot, key, &found, value_word)) return found;
  }
}

// The node's lines are being fetched.
template <class C>
template <class Form>
void LodgeTree<C>::FetchMirror(Lookup* lookup) const {
  const OptimisticSection section;
  const auto position = lookup->node->template Search<Form>(lookup->key);
  lookup->leaf = position.leaf;
  lookup->hits = position.hits;
  Prefetch(&lookup->node->mirrors[position.leaf]);
}

template <class C>
void LodgeTree<C>::FetchSlots(const Lookup& lookup) const {
  const OptimisticSection section;
  const RecordMirror* mirror = lookup.node->record_mirror();
  if (mirror == nullptr) {
    parts_.access.FetchSlots(lookup.node, lookup.leaf, lookup.key);
    return;
  }
  const LeafMirror& leaf = lookup.node->mirrors[lookup.leaf];
  for (uint32_t slots = leaf.Candidates(FingerprintOf(lookup.key.hash)); slots != 0;
       slots &= slots - 1) {
    Prefetch(mirror->AddressOf(lookup.leaf, static_cast<unsigned>(std::countr_zero(slots))));
  }
}

template <class C>
void LodgeTree<C>::FetchRecords(const Lookup& lookup) const requires C::kRecords {
  const OptimisticSection section;
  const Node* node = lookup.node;
  const auto fetch = [&](Pair pair) {
    if (parts_.codec.MayMatch(lookup.key, pair)) parts_.codec.PrefetchKey(pair);
  };
  for (uint32_t hits = lookup.hits; hits != 0; hits &= hits - 1) {
    fetch(node->BufferedPair(static_cast<unsigned>(std::countr_zero(hits))));
  }
  const pmem::Offset offset = node->values[lookup.leaf];
  uint32_t slots = node->mirrors[lookup.leaf].Candidates(FingerprintOf(lookup.key.hash));
  if (const RecordMirror* mirror = node->record_mirror()) {
    for (; slots != 0; slots &= slots - 1) {
      const uint64_t word =
          mirror->WordAt(lookup.leaf, static_cast<unsigned>(std::countr_zero(slots)));
      if (!parts_.record_words.MayHave(word, lookup.key.hash)) continue;
      parts_.codec.PrefetchKeyIn(parts_.record_words.RecordOf(word));
    }
    return;
  }
  // An address that may not be a leaf's is not followed.
  if (!node->lock.Validate(lookup.snapshot)) return;
  const auto* leaf = parts_.pool.template At<media::Leaf>(offset);
  for (; slots != 0; slots &= slots - 1) {
    fetch(SlotPair(leaf, static_cast<unsigned>(std::countr_zero(slots))));
  }
}

template <class C>
template <class Form>
void LodgeTree<C>::FetchLookups(std::span<Lookup> lookups) const {
  for (Lookup& lookup : lookups) {
    lookup.node = parts_.tree.template Descend<Form>(lookup.key, &lookup.snapshot);
  }
  for (Lookup& lookup : lookups) FetchMirror<Form>(&lookup);
  for (const Lookup& lookup : lookups) FetchSlots(lookup);
  if constexpr (C::kRecords) {
    for (const Lookup& lookup : lookups) FetchRecords(lookup);
  }
}

template <class C>
template <class Form>
bool LodgeTree<C>::FinishLookup(const Lookup& lookup, uint64_t* value_word) const {
  bool found;
  if (FindInNode<Form>(lookup.node, lookup.snapshot, lookup.key, &found, value_word)) return found;
  return FindValueWord<SearchByPointer>(lookup.key, value_word);
}

template <class C>
Outcome LodgeTree<C>::Read(std::span<const std::string_view> keys, std::span<ReadResult> results,
                           const ReadOptions& options) {
  return ReadPoints<C>(*this, parts_.values, keys, results, options);
}

template class LodgeTree<Fixed64Codec>;
template class LodgeTree<BytesCodec>;

}  // namespace lodgekv::lodgetree
