// The operations of a call in the order of their keys: so a group locks its nodes from left to
// right, those of one node are adjacent, and so are those of one key, in the order of the call.
//
// What is sorted is small and has the key's first bytes: keys of most groups differ there, and no
// key is read.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "index/engine.h"
#include "index/node/pair_order.h"

namespace lodgekv::lodgetree {

template <class C>
class KeyOrder {
 public:
  using Key = typename C::Key;
  // An operation, by its number in the call.
  struct Place {
    uint64_t word;
    uint32_t op;
    uint16_t hash;
  };

  explicit KeyOrder(std::span<const WriteOp> ops) : ops_(ops) {}

  Place PlaceOf(uint32_t op) const {
    const Key key = C::MakeKey(ops_[op].key);
    return {key.word, op, key.hash};
  }
  Key KeyOf(const Place& place) const {
    if constexpr (C::kRecords) {
      return {ops_[place.op].key, place.word, place.hash};
    } else {
      return {place.word, place.hash};
    }
  }
  bool SameKey(const Place& a, const Place& b) const {
    if (a.word != b.word) return false;
    return !C::kRecords || ops_[a.op].key == ops_[b.op].key;
  }
  // `latest_first`: of one key.
  void Sort(std::span<Place> places, bool latest_first = false) const {
    if (places.size() <= kMostOrdered && SortByWords(places)) return;
    std::sort(places.begin(), places.end(), [&](const Place& a, const Place& b) {
      if (a.word != b.word) [[likely]]
        return a.word < b.word;
      if constexpr (C::kRecords) {
        const int order = ops_[a.op].key.compare(ops_[b.op].key);
        if (order != 0) return order < 0;
      }
      return latest_first ? a.op > b.op : a.op < b.op;
    });
  }
  // The number of the first operation whose key occurs again in `places`, which are sorted; or that
  // of none.
  size_t FirstRepeated(std::span<const Place> places) const {
    size_t first = SIZE_MAX;
    for (size_t i = 1; i < places.size(); ++i) {
      const bool again = SameKey(places[i - 1], places[i]);
      if (again) first = std::min<size_t>(first, places[i - 1].op);
    }
    return first;
  }

 private:
  // False: some are alike.
  static bool SortByWords(std::span<Place> places) {
    WordRanks ranks;
    for (const Place& place : places) ranks.Add(place.word);
    uint8_t order[kMostOrdered];
    if (!ranks.Order(order)) return false;
    Place sorted[kMostOrdered];
    for (size_t i = 0; i < places.size(); ++i) sorted[i] = places[order[i]];
    std::copy_n(sorted, places.size(), places.begin());
    return true;
  }

  const std::span<const WriteOp> ops_;
};

}  // namespace lodgekv::lodgetree
