#include "index/tlbtree/node_check.h"

namespace lodgekv::tlbtree {

template <class C>
bool NodeCheck<C>::LowIsSound(const Low& low) const {
  if constexpr (C::kRecords) {
    const FenceWords fence{low.word, low.meta};
    if (low.word == 0 && low.meta == 0) return true;
    if (!fence.IsSound()) return false;
    if (fence.kind() == FenceWords::kInline) return fence.inline_length() <= sizeof(uint64_t);
    RecordView view;
    return fence.kind() == FenceWords::kRecord &&
           VerifyRecord(tree_.pool, tree_.slab, fence.record(), &view) &&
           KeyWord(view.key, 0) == low.word;
  } else {
    return low.meta == 0;
  }
}

// Its bound is checked with its words; that of `fixed64` has no check bits of its own.
template <class C>
bool NodeCheck<C>::TouchAnchor(pmem::Offset offset) const {
  if (tree_.touch.IsDone(offset)) return true;
  if (!tree_.touch.Verify(offset)) return false;
  const media::Anchor& anchor = *tree_.AnchorAt(offset);
  uint64_t value;
  if (!ReadChecked(anchor.root.Load(), &value)) return false;
  const AnchorView view = AnchorView::Of(anchor);
  if (!ReadChecked(anchor.next[view.root.alt].Load(), &value)) return false;
  if (view.next != 0 && !tree_.anchors.IsUnit(view.next)) return false;
  const bool leads = view.root.dead || tree_.nodes.IsUnit(view.root.node);
  if (!leads || view.root.height < 1 || view.root.height > kMaxHeight) return false;
  const bool low = anchor.low_check.Load() == LowCheck(tree_.pool, offset, view.low);
  return low && LowIsSound(view.low) && tree_.touch.Settle(offset, sizeof(anchor));
}

template <class C>
bool NodeCheck<C>::RootIsSound(const Node* root) const {
  const NodeState state(root->state.Load());
  uint64_t leftmost;
  if (!state.IsSound() || state.count() > Node::kChildren) return false;
  if (!ReadChecked(root->leftmost.Load(), &leftmost) || !tree_.nodes.IsUnit(leftmost)) return false;
  for (unsigned i = 0; i < state.count(); ++i) {
    if (state.SlotAt(i) >= Node::kChildren) return false;
    const LinkTo link = LoadLink(root->children[state.SlotAt(i)]);
    if (!LeadsToNode(link) || !LowIsSound(link.low)) return false;
  }
  return true;
}

template <class C>
bool NodeCheck<C>::TouchRoot(const Node* root) const {
  const pmem::Offset offset = tree_.pool.OffsetOf(root);
  if (tree_.touch.IsDone(offset)) return true;
  return tree_.touch.Verify(offset) && RootIsSound(root) &&
         tree_.touch.Settle(offset, sizeof(Node));
}

// Keys must ascend, as far as their first words tell.
template <class C>
bool NodeCheck<C>::LeafIsSound(const Node* leaf) const {
  const NodeState state(leaf->state.Load());
  if (!state.IsSound() || state.count() > Node::kSlots) return false;
  const LinkTo sibling = LoadLink(leaf->sibling[state.alt()]);
  if (sibling.word != 0 && !(LeadsToNode(sibling) && LowIsSound(sibling.low))) return false;
  uint64_t last = 0;
  for (unsigned i = 0; i < state.count(); ++i) {
    if (state.SlotAt(i) >= Node::kSlots) return false;
    const media::Slot& slot = leaf->slots[state.SlotAt(i)];
    const Pair pair{slot.key.LoadRelaxed(), slot.value.LoadRelaxed()};
    if (pair.key < last || (!C::kRecords && i > 0 && pair.key == last)) return false;
    last = pair.key;
    if constexpr (C::kRecords) {
      if (!tree_.codec.PairIsSound(pair)) return false;
      if (C::IsRecord(pair.value) && tree_.slab.SpaceAt(C::RecordOf(pair.value)) == 0) return false;
    }
  }
  return state.count() == 0 || sibling.word == 0 || last <= sibling.low.word;
}

template <class C>
bool NodeCheck<C>::TouchLeaf(const Node* leaf) const {
  const pmem::Offset offset = tree_.pool.OffsetOf(leaf);
  if (tree_.touch.IsDone(offset)) return true;
  return tree_.touch.Verify(offset) && LeafIsSound(leaf) &&
         tree_.touch.Settle(offset, sizeof(Node));
}

template class NodeCheck<Fixed64Codec>;
template class NodeCheck<BytesCodec>;

}  // namespace lodgekv::tlbtree
