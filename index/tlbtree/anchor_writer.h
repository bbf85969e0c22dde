// Changes an anchor by one store of its root word (README.md, Anchor).
//
// Thread-safe for different anchors; for one, only the holder of its lock may call.
#pragma once

#include "index/tlbtree/descent.h"

namespace lodgekv::tlbtree {

template <class C>
class AnchorWriter {
 public:
  explicit AnchorWriter(TreeState<C>& tree) : tree_(tree) {}

  // What `root` leads to is durable, or was flushed and fenced. Durable on return.
  void Commit(AnchorPlace* place, const AnchorRoot& root);
  // The same together with another right neighbour. What both lead to was flushed.
  void Relink(AnchorPlace* place, pmem::Offset next, AnchorRoot root);

 private:
  TreeState<C>& tree_;
};

}  // namespace lodgekv::tlbtree
