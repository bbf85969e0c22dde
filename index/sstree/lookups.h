// Lookups of keys: optimistic, without locks, fences or writes. A record is read only after its
// pair has been validated, inside an epoch.
//
// Several keys are looked up together: first all descents, so that the leaves in DRAM, then their
// lines on the medium, and then the records are fetched in parallel. This is the Tree of
// node/point_reads.h.
//
// The templates over a form of search (node/search_form.h) are instantiated in read.cc.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <span>

#include "index/node/point_reads.h"
#include "index/sstree/leaf_search.h"

namespace lodgekv::sstree {

template <class C>
class Lookups {
 public:
  using Key = typename C::Key;
  struct Lookup : KeyLookup<C> {
    const Leaf* leaf;
    uint64_t snapshot;
  };

  explicit Lookups(const TreeState<C>& tree) : tree_(tree), search_(tree) {}

  template <class Form>
  bool FindValueWord(const Key& key, uint64_t* value_word) const;
  template <class Form>
  void FetchLookups(std::span<Lookup> lookups) const;
  template <class Form>
  bool FinishLookup(const Lookup& lookup, uint64_t* value_word) const;

 private:
  // The answer of one leaf.
  enum class Seen : uint8_t {
    kChanged,  // the leaf, meanwhile: there is no answer
    kAbsent,
    kFound
  };
  struct Answer {
    Seen seen = Seen::kChanged;
    uint64_t value_word = 0;
  };
  Answer FindInLeaf(const Leaf* leaf, uint64_t snapshot, const Key& key) const;
  [[gnu::noinline]] Answer FindInOverflow(const Leaf* leaf, uint64_t snapshot,
                                          const media::Subnode* head, Key key) const;
  Answer FindInSubnode(const Leaf* leaf, uint64_t snapshot, const media::Subnode& subnode,
                       uint32_t slots, const Key& key) const;
  void FetchSlots(const Lookup& lookup) const;

  const TreeState<C>& tree_;
  const LeafSearch<C> search_;
};

}  // namespace lodgekv::sstree
