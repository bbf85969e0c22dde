// Lookups of keys: optimistic, without locks or writes. Most keys are in the leaf that the layers
// above lead to; only if it is not there does a reader look at the leaf's bound, and perhaps go on
// sideways. A record is read only after its pair has been validated, inside an epoch.
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

#include "index/node/point_reads.h"
#include "index/tlbtree/descent.h"

namespace lodgekv::tlbtree {

template <class C>
class Lookups {
 public:
  using Key = typename C::Key;
  static constexpr bool kMeetsDamage = true;
  struct Lookup : KeyLookup<C> {
    LeafPlace<C> place;
  };

  explicit Lookups(TreeState<C>& tree) : tree_(tree), descent_(tree) {}

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
    kBeyond,   // the key belongs to a leaf to the right
    kAbsent,
    kFound
  };
  struct Answer {
    Seen seen = Seen::kChanged;
    uint64_t value_word = 0;
  };
  template <class Form>
  Answer FindInLeaf(const LeafPlace<C>& place, const Key& key) const;
  template <class Form>
  [[gnu::noinline]] Answer FindBeyond(const Key& key) const;

  TreeState<C>& tree_;
  const Descent<C> descent_;
};

}  // namespace lodgekv::tlbtree
