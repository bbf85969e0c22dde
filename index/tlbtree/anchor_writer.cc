#include "index/tlbtree/anchor_writer.h"

#include "index/pmem/crash_point.h"

namespace lodgekv::tlbtree {

template <class C>
void AnchorWriter<C>::Stage(const AnchorPlace& place, AnchorChange* change) {
  if (!change->next.has_value()) return;
  pmem::Medium& medium = tree_.medium;
  media::Anchor& anchor = *tree_.AnchorAt(place.offset);
  change->root.alt ^= 1;
  if (!medium.Canary("tlbtree.anchor.next_after_root")) {
    medium.Store(anchor.next[change->root.alt], CheckedWord(*change->next));
  }
  if (medium.strict_order()) medium.FlushLine(&anchor);
}

// Readers wait until it is durable: nobody uses what is reached by it before.
template <class C>
void AnchorWriter<C>::Store(const AnchorPlace& place, const AnchorChange& change) {
  pmem::Medium& medium = tree_.medium;
  media::Anchor& anchor = *tree_.AnchorAt(place.offset);
  tree_.locks.Of(&anchor).BeginPublish();
  medium.StoreOrdered(anchor.root, change.root.word());
  if (change.next.has_value() && medium.Canary("tlbtree.anchor.next_after_root")) {
    medium.Store(anchor.next[change.root.alt], CheckedWord(*change.next));
  }
  medium.FlushLine(&anchor);
}

template <class C>
void AnchorWriter<C>::Publish(AnchorPlace* place) {
  const media::Anchor& anchor = *tree_.AnchorAt(place->offset);
  tree_.locks.Of(&anchor).EndPublish();
  place->view = AnchorView::Of(anchor);
}

template <class C>
void AnchorWriter<C>::Change(AnchorPlace* place, AnchorChange change) {
  pmem::Medium& medium = tree_.medium;
  Stage(*place, &change);
  if (change.next.has_value()) {
    LODGEKV_CRASH_POINT(medium, "tlbtree.anchor.1");
    medium.OrderStores();
  }
  Store(*place, change);
  LODGEKV_CRASH_POINT(medium, "tlbtree.anchor.2");
  medium.Fence();
  Publish(place);
}

template class AnchorWriter<Fixed64Codec>;
template class AnchorWriter<BytesCodec>;

}  // namespace lodgekv::tlbtree
