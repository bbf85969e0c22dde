// Changes an anchor by one store of its root word (README.md, Anchor).
//
// Thread-safe for different anchors; for one, only the holder of its lock may call.
#pragma once

#include <optional>

#include "index/tlbtree/descent.h"

namespace lodgekv::tlbtree {

// What an anchor will say. Another right neighbour has its place in `root` (alt).
struct AnchorChange {
  AnchorRoot root;
  std::optional<pmem::Offset> next;  // the right neighbour, if it is another one
};

template <class C>
class AnchorWriter {
 public:
  explicit AnchorWriter(TreeState<C>& tree) : tree_(tree) {}

  // The whole change. What it leads to was flushed; if that has not been fenced, the neighbour is
  // another one. Durable on return.
  void Change(AnchorPlace* place, AnchorChange change);

  // Its steps, between which several anchors share fences. First: the neighbour is written where
  // nobody looks.
  void Stage(const AnchorPlace& place, AnchorChange* change);
  // After a fence: the commit, from which on readers wait.
  void Store(const AnchorPlace& place, const AnchorChange& change);
  // After another one.
  void Publish(AnchorPlace* place);

 private:
  TreeState<C>& tree_;
};

}  // namespace lodgekv::tlbtree
