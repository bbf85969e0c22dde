// Lookups of keys: optimistic, without locks, fences or writes. A record is read only after its
// pair has been validated, inside an epoch.
//
// Several keys are looked up together: first all descents, so that the Mnodes, then the tags of
// those leaves that may have their key, then the slots, and then the records are fetched in
// parallel. This is the Tree of node/point_reads.h.
//
// The templates over a form of search (node/search_form.h) are instantiated in read.cc.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <span>

#include "index/node/point_reads.h"
#include "index/sptree/leaf_search.h"

namespace lodgekv::sptree {

template <class C>
class Lookups {
 public:
  using Key = typename C::Key;
  static constexpr bool kMeetsDamage = true;
  struct Lookup : KeyLookup<C> {
    const Mnode<C>* leaf;  // null: something on the way to it is damaged
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
  Answer FindInLeaf(const Mnode<C>* leaf, uint64_t snapshot, const Key& key) const;
  bool FindInBuffer(const Mnode<C>* leaf, const WriteBuffer& buffer, uint64_t snapshot,
                    const Key& key, Answer* answer) const;
  void FetchTags(const Lookup& lookup) const;
  void FetchSlots(const Lookup& lookup) const;

  const TreeState<C>& tree_;
  const LeafSearch<C> search_;
};

}  // namespace lodgekv::sptree
