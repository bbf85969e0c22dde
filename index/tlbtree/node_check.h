// What a node or an anchor must look like to be used, examined at its first touch after the pool
// was opened (first_touch.h).
//
// Thread-safe. The node may be changing, or may no longer be one: whoever gets false validates what
// led there before it is called damage.
#pragma once

#include "index/tlbtree/tree_state.h"

namespace lodgekv::tlbtree {

template <class C>
class NodeCheck {
 public:
  using Node = media::Node<C>;

  explicit NodeCheck(TreeState<C>& tree) : tree_(tree) {}

  // False: damaged, or the medium has failed.
  bool TouchAnchor(pmem::Offset offset) const;
  bool TouchRoot(const Node* root) const;
  bool TouchLeaf(const Node* leaf) const;

  // The same of the words alone.
  bool LeafIsSound(const Node* leaf) const;
  bool RootIsSound(const Node* root) const;

 private:
  bool LeadsToNode(const LinkTo& link) const {
    return link.IsSound() && tree_.nodes.IsUnit(link.node());
  }
  bool LowIsSound(const Low& low) const;

  TreeState<C>& tree_;
};

}  // namespace lodgekv::tlbtree
