// Lookups of keys: optimistic, without locks, fences or writes. The descent prefetches the leaf's
// lines; a record is read only after its pair has been validated, inside an epoch.
//
// Several keys are looked up together: first all descents, so that the leaves' lines, and then the
// records', are fetched in parallel. This is the Tree of node/point_reads.h.
//
// The templates over a form of search (node/search_form.h) are instantiated in read.cc.
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

  explicit Lookups(const TreeState<C>& tree)
      : tree_(tree),
        search_(tree),
        one_block_(tree.blocks == 1 && tree.locks.readers_wait() && tree.parameters.fingerprints) {}

  template <class Form>
  bool FindValueWord(const Key& key, uint64_t* value_word) const;
  template <class Form>
  void FetchLookups(std::span<Lookup> lookups) const;
  template <class Form>
  bool FinishLookup(const Lookup& lookup, uint64_t* value_word) const;

 private:
  // What a leaf may be; known to the compiler, so that the usual one costs no more than it must.
  enum class LeafKind : uint8_t {
    kOneBlock,  // of one block, with fingerprints, where readers wait for a commit's fence
    kAny
  };
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
  Answer FindInLeaf(const media::Block* leaf, uint64_t snapshot, const Key& key) const {
    tree_.Touch(key);
    if (one_block_) [[likely]]
      return FindInLeafOf<LeafKind::kOneBlock>(leaf, snapshot, key);
    return FindInOtherLeaf(leaf, snapshot, key);
  }
  [[gnu::noinline]] Answer FindInOtherLeaf(const media::Block* leaf, uint64_t snapshot,
                                           Key key) const {
    return FindInLeafOf<LeafKind::kAny>(leaf, snapshot, key);
  }
  template <LeafKind kKind>
  Answer FindInLeafOf(const media::Block* leaf, uint64_t snapshot, const Key& key) const;

  const TreeState<C>& tree_;
  const LeafSearch<C> search_;
  const bool one_block_;
};

}  // namespace lodgekv::lbtree
