// Walks the leaves from left to right, concurrent with everything else. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "index/sptree/tree_state.h"

namespace lodgekv::sptree {

template <class C>
class LeafWalk {
 public:
  // A leaf as of one moment. Its bounds are valid during the visit.
  struct Visit {
    Mnode<C>* leaf;
    const media::Bnode* bnode;
    uint64_t keys;
    typename C::Separator low;
    typename C::Separator high;
    bool bounded;
  };
  // False ends the walk.
  using Visitor = absl::FunctionRef<bool(const Visit&)>;

  explicit LeafWalk(const TreeState<C>& tree) : tree_(tree) {}

  // Visits every leaf from the one that covers `from` on, each inside an EpochGuard. `lock`:
  // visited leaves are locked, and the visitor unlocks them, at once or behind the walk.
  // False: something is damaged, and the walk has ended there.
  bool ForEach(std::string from, bool lock, Visitor visit) const;
  uint64_t CountKeys() const;

 private:
  struct Place {
    Mnode<C>* leaf = nullptr;
    uint64_t snapshot = 0;
  };
  Place Seek(std::string_view from) const;  // null: something is damaged
  Place RightOf(const Mnode<C>& leaf) const;

  const TreeState<C>& tree_;
};

}  // namespace lodgekv::sptree
