// Floor for several keys at once: a node of each way after another, so that what the next step of a
// way reads is being fetched while the others make theirs.
//
// A node's first line says where its child is. That has the children of the smallest kind, too; of
// kind 16 the lines behind it are fetched as well, of the others the child's line would be known
// only after the first one.
//
// A search that something has changed under, or whose key parts from the tree in a prefix that was
// passed over, is made alone in the end: both are rare.
//
// Part of tree.h, for sources that look for several keys.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>

#include "index/art/tree.h"
#include "index/node/prefetch.h"

namespace lodgekv::art {

inline void FetchNode(Child child) {
  const auto* node = reinterpret_cast<const char*>(child.node());
  if (child.kind() == Kind::k16) return PrefetchLines(node, sizeof(Node16));
  Prefetch(node);
}

// Up to kAtOnce searches.
template <class Form, class Key, class Leaves>
class FloorGroup {
 public:
  static constexpr size_t kAtOnce = 16;
  using Search = FloorSearch<Form, Key, Leaves, true>;
  using End = typename Search::End;

  explicit FloorGroup(const Leaves& leaves) : leaves_(leaves) {}

  void Begin(Key key, const Root& root) {
    Way& way = ways_[count_++];
    way.search.emplace(key, leaves_);
    way.end = End::kOnTheWay;
    way.search->Begin(root, &way.at);
    Fetch(way.at.child);
  }
  void Run() {
    for (bool more = true; more;) {
      more = false;
      for (Way& way : *this) more |= Step(&way);
    }
    for (Way& way : *this) {
      if (way.end == End::kOnTheWay) way.end = way.search->Arrive(way.at);
    }
  }
  // Null: search i is to be made alone.
  const Search* Found(size_t i) const {
    return ways_[i].end == End::kFound ? &*ways_[i].search : nullptr;
  }

 private:
  struct Way {
    std::optional<Search> search;
    typename Search::Way at;
    End end;
  };
  Way* begin() { return ways_; }
  Way* end() { return ways_ + count_; }

  void Fetch(Child child) const {
    if (child.is_node()) {
      FetchNode(child);
    } else if (!child.empty()) {
      leaves_.Fetch(child);
    }
  }
  // False: the way is at its end.
  bool Step(Way* way) const {
    if (way->end != End::kOnTheWay || !way->at.child.is_node()) return false;
    way->end = way->search->Step(&way->at);
    if (way->end != End::kOnTheWay) return false;
    const Child child = way->at.child;
    if (!child.is_node() && way->search->IsPast(way->at)) {
      way->end = way->search->Arrive(way->at);
      return false;
    }
    Fetch(child);
    return true;
  }

  const Leaves& leaves_;
  Way ways_[kAtOnce];
  size_t count_ = 0;
};

template <class Below, class KeyOf>
template <class Form, class KeyAt, class Arrive, class Found>
void Tree<Below, KeyOf>::FloorEach(size_t count, KeyAt key_at, Arrive arrive, Found found) const {
  using Its = Leaves<Below, KeyOf>;
  using Group = FloorGroup<Form, Key, Its>;
  for (size_t begin = 0; begin < count; begin += Group::kAtOnce) {
    const OptimisticSection section;
    const size_t end = std::min(count, begin + Group::kAtOnce);
    Group group(parts_.leaves);
    for (size_t i = begin; i < end; ++i) group.Begin(key_at(i), parts_.root);
    group.Run();
    for (size_t i = begin; i < end; ++i) {
      const auto* search = group.Found(i - begin);
      Below* below = search == nullptr ? nullptr : Its::At(search->result());
      if (below != nullptr) {
        arrive(i, below);
        if (!search->shown_by().Holds()) below = nullptr;
      }
      if (below == nullptr) [[unlikely]]
        below = Floor(key_at(i), [&](Below* at) { arrive(i, at); });
      found(i, below);
    }
  }
}

}  // namespace lodgekv::art
