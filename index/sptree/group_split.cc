// Splits in a group; their crash table: README.md, Split in a group.
#include <bit>

#include "index/pmem/crash_point.h"
#include "index/sptree/write_group.h"

namespace lodgekv::sptree {

template <class C>
bool WriteGroup<C>::IsAbove(const Key& key) const {
  const media::Bnode& bnode = *change_->leaf->bnode;
  for (uint64_t slots = change_->bitmap; slots != 0; slots &= slots - 1) {
    const Pair pair = SlotPair(bnode, static_cast<unsigned>(std::countr_zero(slots)));
    if (pair.key > key.word) return false;
    if constexpr (C::kRecords) {
      char scratch[8];
      if (pair.key == key.word && tree_.codec.KeyText(pair, scratch) > key.text) return false;
    }
  }
  return true;
}

// The leaf is full, and has let go of nothing. kLater: the key belongs to the old leaf, whose slots
// count until the commit.
template <class C>
Joining WriteGroup<C>::Split(const Key& key) {
  if (at_->alone || split_leaves_.size() == kMostLeaves) return Joining::kLater;
  at_->alone = IsAbove(key);
  if (at_->alone) return Joining::kAlone;
  SplitLeaf split;
  uint32_t lines;
  Mnode<C>* added = splitter_.Stage(tree_.workers.Current(), *change_->leaf, change_->bitmap,
                                    &split.division, &lines);
  if (added == nullptr) return Joining::kAlone;
  split.change.leaf = added;
  split.change.bitmap = added->bitmap;
  split.change.lines = lines;
  split.change.unlinked = true;
  change_->bitmap &= ~split.division.moved;
  at_->right = &split_leaves_.emplace_back(split);
  if (GoesRight(*at_, key)) {
    change_ = &at_->right->change;
  } else if (!writer_.HasRoom(*change_)) {
    at_->awaited = true;
    return Joining::kLater;
  }
  return Joining::kJoined;
}

// Step 1, if words may tear: the links are durable before the bitmaps. Otherwise a link is in its
// bitmap's line, and stored before it.
template <class C>
void WriteGroup<C>::LinkSplitLeaves(std::span<Held*> leaves) {
  pmem::Medium& medium = tree_.medium;
  bool any = false;
  for (const Held* held : leaves) {
    if (held->right == nullptr) continue;
    any = true;
    if (medium.Canary("sptree.group_split.bitmap_first")) writer_.Commit(held->change);
    splitter_.StoreNext(*held->change.leaf, held->right->division);
    if (medium.strict_order()) medium.FlushLine(held->change.leaf->bnode);
  }
  if (!any || !medium.strict_order()) return;
  LODGEKV_CRASH_POINT(medium, "sptree.group_split.1");
  medium.OrderStores();
}

template <class C>
void WriteGroup<C>::Publish(Held& held) {
  if (held.right == nullptr) return writer_.Publish(held.change);
  Mnode<C>* added = held.right->change.leaf;
  added->bitmap = held.right->change.bitmap;
  splitter_.Publish(held.change.leaf, added, held.right->division, held.change.bitmap);
  LODGEKV_CRASH_POINT(tree_.medium, "sptree.group_split.2");
}

template class WriteGroup<Fixed64Codec>;
template class WriteGroup<BytesCodec>;

}  // namespace lodgekv::sptree
