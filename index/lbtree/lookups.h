// Lookups of keys: optimistic, without locks, fences or writes. The descent prefetches the leaf's
// lines; a record is read only after its pair has been validated, inside an epoch.
//
// Several keys are looked up together: first all descents, so that the leaves' lines, and then the
// records', are fetched in parallel. This is the Tree of node/point_reads.h.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <span>

#include "index/lbtree/leaf_search.h"
#include "index/node/point_reads.h"

namespace lodgekv::lbtree {

template <class C>
class Lookups {
 public:
  using Key = typename C::Key;
  struct Lookup : KeyLookup<C> {
    const media::Block* leaf;
    uint64_t snapshot;
  };

  explicit Lookups(const TreeState<C>& tree) : tree_(tree), search_(tree) {}

  bool FindValueWord(const Key& key, uint64_t* value_word) const;
  void FetchLookups(std::span<Lookup> lookups) const;
  bool FinishLookup(const Lookup& lookup, uint64_t* value_word) const;

 private:
  bool FindInLeaf(const media::Block* leaf, uint64_t snapshot, const Key& key, bool* found,
                  uint64_t* value_word) const;
  void FetchRecords(const Lookup& lookup) const requires C::kRecords;

  const TreeState<C>& tree_;
  const LeafSearch<C> search_;
};

}  // namespace lodgekv::lbtree
