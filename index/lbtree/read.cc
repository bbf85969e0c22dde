// Read (LB+-Tree Alg. 1): optimistic, without locks, fences or writes. The descent has fetched the
// leaf's lines; a record is read only once its pair has been validated, inside an epoch.
//
// Several keys are looked up together: all descents first, so that the leaves' lines, and then the
// records', are on their way at once.
#include <bit>

#include "index/lbtree/fingerprints.h"
#include "index/lbtree/lbtree.h"
#include "index/node/optimistic_section.h"
#include "index/node/point_reads.h"
#include "index/node/prefetch.h"

namespace lodgekv::lbtree {

// The slots of a block that may hold the key.
template <class C>
uint32_t LbTree<C>::Candidates(const LeafView& leaf, unsigned block, const Key& key) const {
  const uint32_t slots = leaf.SlotsOf(block);
  if (!parameters_.fingerprints) return slots;
  return slots & MatchFingerprints(leaf.HeaderAt(block), FingerprintOf(key.hash));
}

// Looks into one leaf as of `snapshot`. False: it has changed meanwhile.
template <class C>
bool LbTree<C>::FindInLeaf(const media::Block* leaf, uint64_t snapshot, const Key& key, bool* found,
                           uint64_t* value_word) const {
  const VersionLock& lock = locks_.Of(leaf);
  const OptimisticSection section;
  *found = false;
  const LeafView view = ViewOf(leaf);
  for (unsigned b = 0; b < blocks_ && !*found; ++b) {
    uint32_t slots = Candidates(view, b, key);
    for (; slots != 0 && !*found; slots &= slots - 1) {
      const Pair pair = view.PairAt(b, static_cast<unsigned>(std::countr_zero(slots)));
      if (!codec_.MayMatch(key, pair)) continue;
      if constexpr (C::kRecords) {
        if (C::IsRecord(pair.value)) {
          Prefetch(pool_.At<char>(C::RecordOf(pair.value)) + pmem::kLineBytes - 1);
        }
        if (!lock.Validate(snapshot)) return false;
        const OptimisticSection::Validated validated;
        if (!codec_.Matches(key, pair)) continue;
      }
      *found = true;
      *value_word = pair.value;
    }
  }
  return lock.Validate(snapshot);
}

template <class C>
bool LbTree<C>::FindValueWord(const Key& key, uint64_t* value_word) const {
  for (;;) {
    uint64_t snapshot;
    const media::Block* leaf = tree_.Descend(key, &snapshot);
    bool found;
    if (FindInLeaf(leaf, snapshot, key, &found, value_word)) return found;
  }
}

// In a leaf whose lock is held.
template <class C>
typename LbTree<C>::Place LbTree<C>::FindPlace(const media::Block* leaf, const Key& key) const {
  const LeafView view(leaf, nullptr);
  for (unsigned b = 0; b < blocks_; ++b) {
    uint32_t slots = Candidates(view, b, key);
    for (; slots != 0; slots &= slots - 1) {
      const int slot = std::countr_zero(slots);
      const Pair pair = SlotPair(leaf[b], static_cast<unsigned>(slot));
      if (codec_.MayMatch(key, pair) && codec_.Matches(key, pair)) return {b, slot};
    }
  }
  return {};
}

// The leaf's lines are on their way, or here.
template <class C>
void LbTree<C>::FetchRecords(const Lookup& lookup) const requires C::kRecords {
  const OptimisticSection section;
  const LeafView view = ViewOf(lookup.leaf);
  for (unsigned b = 0; b < blocks_; ++b) {
    uint32_t slots = Candidates(view, b, lookup.key);
    for (; slots != 0; slots &= slots - 1) {
      const Pair pair = view.PairAt(b, static_cast<unsigned>(std::countr_zero(slots)));
      if (!codec_.MayMatch(lookup.key, pair) || !C::IsRecord(pair.value)) continue;
      const char* record = pool_.At<char>(C::RecordOf(pair.value));
      Prefetch(record);
      Prefetch(record + pmem::kLineBytes - 1);
    }
  }
}

template <class C>
void LbTree<C>::FetchLookups(std::span<Lookup> lookups) const {
  for (Lookup& lookup : lookups) lookup.leaf = tree_.Descend(lookup.key, &lookup.snapshot);
  if constexpr (C::kRecords) {
    for (const Lookup& lookup : lookups) FetchRecords(lookup);
  }
}

template <class C>
bool LbTree<C>::FinishLookup(const Lookup& lookup, uint64_t* value_word) const {
  bool found;
  if (FindInLeaf(lookup.leaf, lookup.snapshot, lookup.key, &found, value_word)) return found;
  return FindValueWord(lookup.key, value_word);
}

template <class C>
Outcome LbTree<C>::Read(std::span<const std::string_view> keys, std::span<ReadResult> results,
                        const ReadOptions& options) {
  return PointReads<C, LbTree>(*this, values_, options).Read(keys, results);
}

template class LbTree<Fixed64Codec>;
template class LbTree<BytesCodec>;

}  // namespace lodgekv::lbtree
