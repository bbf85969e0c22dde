#include "index/sptree/leaf_examiner.h"

#include <bit>

#include "absl/strings/str_cat.h"
#include "index/sptree/tree_state.h"

namespace lodgekv::sptree {

template <class C>
absl::Status LeafExaminer<C>::ReadLow(pmem::Offset offset, bool first_of_all, SeparatorTexts& texts,
                                      Separator* low) const {
  const FenceWords fence = FenceOf(*tree_.BnodeAt(offset));
  if (tree_.codec.DecodeFence(fence, texts, low) &&
      first_of_all == (fence.kind() == FenceWords::kMinusInfinity)) {
    return absl::OkStatus();
  }
  return Damaged("a low fence that is damaged or out of order", offset);
}

template <class C>
bool LeafExaminer<C>::MarkRecord(pmem::Offset record) const {
  const pmem::UnitArena::MarkResult result = tree_.slab.Mark(record);
  return marks_ == Marks::kFirst ? result == pmem::UnitArena::MarkResult::kMarked
                                 : result != pmem::UnitArena::MarkResult::kNotAUnit;
}

template <class C>
absl::Status LeafExaminer<C>::MarkFence(pmem::Offset offset) const {
  if constexpr (C::kRecords) {
    const FenceWords fence = FenceOf(*tree_.BnodeAt(offset));
    if (fence.kind() == FenceWords::kRecord && !MarkRecord(fence.record())) {
      return Damaged("a fence record with another owner", offset);
    }
  }
  return absl::OkStatus();
}

template <class C>
absl::Status LeafExaminer<C>::LookAt(Looked<C>* looked) const {
  const media::Bnode& bnode = *looked->bnode;
  const pmem::Offset offset = tree_.pool.OffsetOf(&bnode);
  absl::Status status = MarkFence(offset);
  if (status.ok()) status = LookAtWords(bnode);
  const uint64_t bitmap = bnode.bitmap.Load();
  for (uint64_t slots = bitmap; slots != 0 && status.ok(); slots &= slots - 1) {
    status = LookAtSlot(looked, static_cast<unsigned>(std::countr_zero(slots)));
  }
  if (!status.ok()) return status;
  looked->leaf->bnode = tree_.BnodeAt(offset);
  looked->leaf->bitmap = bitmap & ~looked->overlap;
  return absl::OkStatus();
}

template <class C>
absl::Status LeafExaminer<C>::LookAtWords(const media::Bnode& bnode) const {
  uint64_t watermark;
  if (!ReadChecked(bnode.watermark.Load(), &watermark)) {
    return Damaged("a damaged watermark in the leaf", tree_.pool.OffsetOf(&bnode));
  }
  const uint64_t dropped = bnode.dropped.Load();
  if (dropped != 0 && dropped != media::kDropped) {
    return Damaged("a damaged mark in the leaf", tree_.pool.OffsetOf(&bnode));
  }
  if ((bnode.bitmap.Load() & ~tree_.usable_slots()) != 0) {
    return MorePairs(tree_);
  }
  return absl::OkStatus();
}

template <class C>
absl::Status LeafExaminer<C>::MorePairs(const TreeState<C>& tree) {
  return absl::FailedPreconditionError(
      absl::StrCat("leaf_slots is ", tree.parameters.leaf_slots,
                   ", but a leaf of the pool needs more slots; open it with the larger value"));
}

template <class C>
bool LeafExaminer<C>::IsBelow(Pair pair, Separator separator) const {
  const uint64_t word = C::WordOf(separator, 0);
  if (pair.key != word || !C::kRecords) return pair.key < word;
  return !tree_.codec.KeyInRange(pair, separator, false, separator);
}

// A key of the next leaf's range is a copy: the next leaf has that key, or had it, if it was
// touched and changed in an earlier run before this leaf was mended. What makes a key that is
// damaged lie there is found out before, by its tag.
template <class C>
absl::Status LeafExaminer<C>::LookAtSlot(Looked<C>* looked, unsigned slot) const {
  const Pair pair = SlotPair(*looked->bnode, slot);
  const C& codec = tree_.codec;
  const pmem::Offset where = tree_.pool.OffsetOf(looked->bnode);
  if constexpr (C::kRecords) {
    if (!codec.PairIsSound(pair)) {
      return Damaged("a pair whose check bits do not fit in the leaf", where);
    }
  }
  const uint16_t hash = codec.HashOf(pair);
  if (unsealed_ && TagsOf(*looked->bnode)[slot] != FingerprintOf(hash)) {
    return Damaged("a tag that is not its key's in the leaf", where);
  }
  const bool bounded = looked->right != nullptr;
  if ((Ties(pair, looked->low) || (bounded && Ties(pair, looked->high))) && !KeyFits(pair)) {
    return Damaged("a pair whose record has another key at the border of the leaf", where);
  }
  if (IsBelow(pair, looked->low)) return Damaged("a key below the low fence of the leaf", where);
  if (bounded && !IsBelow(pair, looked->high)) {
    if (!tree_.medium.Canary("sptree.recovery.copies_stay")) {
      looked->overlap |= uint64_t{1} << slot;
    }
    return absl::OkStatus();
  }
  if constexpr (C::kRecords) {
    if (C::IsRecord(pair.value) && !MarkRecord(C::RecordOf(pair.value))) {
      return Damaged("a pair whose record is none or another's in the leaf", where);
    }
  }
  looked->leaf->filter.Add(hash);
  return absl::OkStatus();
}

template class LeafExaminer<Fixed64Codec>;
template class LeafExaminer<BytesCodec>;

}  // namespace lodgekv::sptree
