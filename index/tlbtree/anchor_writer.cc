#include "index/tlbtree/anchor_writer.h"

#include "index/pmem/crash_point.h"

namespace lodgekv::tlbtree {

// The store of the anchor's root word. Readers wait until it is durable: nobody uses what is
// reached by it before.
template <class C>
void AnchorWriter<C>::Commit(AnchorPlace* place, const AnchorRoot& root) {
  pmem::Medium& medium = tree_.medium;
  media::Anchor& anchor = *tree_.AnchorAt(place->offset);
  VersionLock& lock = tree_.locks.Of(&anchor);
  lock.BeginPublish();
  medium.Store(anchor.root, root.word());
  medium.FlushLine(&anchor);
  LODGEKV_CRASH_POINT(medium, "tlbtree.anchor.2");
  medium.Fence();
  lock.EndPublish();
  place->view = AnchorView::Of(anchor);
}

// Commits `root` together with another right neighbour.
template <class C>
void AnchorWriter<C>::Relink(AnchorPlace* place, pmem::Offset next, AnchorRoot root) {
  pmem::Medium& medium = tree_.medium;
  media::Anchor& anchor = *tree_.AnchorAt(place->offset);
  root.alt ^= 1;
  const bool late = medium.Canary("tlbtree.anchor.next_after_root");
  if (!late) medium.Store(anchor.next[root.alt], CheckedWord(next));
  if (medium.strict_order()) medium.FlushLine(&anchor);
  LODGEKV_CRASH_POINT(medium, "tlbtree.anchor.1");
  medium.Fence();
  if (late) {
    tree_.locks.Of(&anchor).BeginPublish();
    medium.Store(anchor.root, root.word());
    medium.Store(anchor.next[root.alt], CheckedWord(next));
  }
  Commit(place, root);
}

template class AnchorWriter<Fixed64Codec>;
template class AnchorWriter<BytesCodec>;

}  // namespace lodgekv::tlbtree
