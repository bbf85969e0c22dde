#include "index/tlbtree/tlbtree_test_util.h"

namespace lodgekv::tlbtree {

namespace {

template <class Tag, auto kMember>
struct Opened {
  friend auto Open(Tag) { return kMember; }
};
struct FixedTag {
  friend auto Open(FixedTag);
};
struct BytesTag {
  friend auto Open(BytesTag);
};
template struct Opened<FixedTag, &TlbTree<Fixed64Codec>::tree_>;
template struct Opened<BytesTag, &TlbTree<BytesCodec>::tree_>;

}  // namespace

TreeState<Fixed64Codec>& FixedState(TestEngine& tree) {
  return static_cast<TlbTree<Fixed64Codec>&>(tree.engine()).*Open(FixedTag());
}
TreeState<BytesCodec>& BytesState(TestEngine& tree) {
  return static_cast<TlbTree<BytesCodec>&>(tree.engine()).*Open(BytesTag());
}

}  // namespace lodgekv::tlbtree
