// What recovery finds on the medium: the chain of leaves, and what is in them.
#include <bit>
#include <string>

#include "absl/strings/str_cat.h"
#include "index/sptree/recovery.h"

namespace lodgekv::sptree {

namespace {
constexpr size_t kLeavesPerTask = 1024;
constexpr size_t kLeavesAhead = 2;
constexpr size_t kFetchedBytes = offsetof(media::Bnode, beyond);
}  // namespace

// --- the chain ---

absl::Status Siblings::Next(pmem::Offset offset, pmem::Offset* next) const {
  if (absl::Status status = pool.contents().EnsureVerified(offset); !status.ok()) return status;
  if (ReadChecked(pool.At<media::Bnode>(offset)->next.Load(), next)) return absl::OkStatus();
  return DamagedPool("sptree", "a next pointer with wrong check bits in the leaf", offset);
}

absl::Status Siblings::NoLeaf(pmem::Offset offset, pmem::Offset) const {
  return DamagedPool("sptree", "a next pointer that leads to no leaf in the leaf", offset);
}

absl::Status Siblings::ComesBack(pmem::Offset offset) const {
  return DamagedPool("sptree", "a chain of leaves that leads back", offset);
}

template <class C>
absl::Status Recovery<C>::FindLeaves() {
  const pmem::Word& word = pool_.engine_area()[media::kFirstLeaf];
  pmem::Offset first;
  if (!ReadChecked(word.Load(), &first) || !tree_.bnodes.IsUnit(first)) {
    return Damaged("a first leaf that is none", pool_.OffsetOf(&word));
  }
  PhaseProgress progress(context_.progress, "leaf chain", 0);
  const absl::Status status = chain_.Run(first, context_.recovery_threads, progress);
  report_.leaves_scanned = chain_.size();
  return status;
}

// --- what is in the leaves ---

template <class C>
absl::Status Recovery<C>::LookThrough() {
  runs_.resize(PartsOf(chain_.size(), kLeavesPerTask));
  PhaseProgress progress(context_.progress, "leaves", chain_.size());
  return Parallel(runs_.size(), [&](size_t task) {
    const Part part = Part::Of(chain_.size(), runs_.size(), task);
    const absl::Status status = LookThroughRun(part.begin, part.end, &runs_[task]);
    progress.Add(part.end - part.begin);
    return status;
  });
}

// Sets all of its Mnodes but `right` of the last one, which is in the next run.
template <class C>
absl::Status Recovery<C>::LookThroughRun(size_t begin, size_t end, LeafRun* run) {
  const size_t count = end - begin;
  const std::vector<pmem::Offset> offsets = chain_.Leaves(begin, std::min(end + 1, chain_.size()));
  run->leaves.resize(count);
  tree_.mnodes.Make(run->leaves);
  Separator low;
  absl::Status status = ReadLow(offsets[0], begin == 0, &low);
  for (size_t i = 0; i < count && status.ok(); ++i) {
    if (i + kLeavesAhead < offsets.size()) {
      PrefetchLines(pool_.At<char>(offsets[i + kLeavesAhead]), kFetchedBytes);
    }
    Looked looked{.bnode = tree_.BnodeAt(offsets[i]),
                  .right = nullptr,
                  .low = low,
                  .high = {},
                  .leaf = run->leaves[i]};
    if (i + 1 < offsets.size()) {
      looked.right = tree_.BnodeAt(offsets[i + 1]);
      status = ReadLow(offsets[i + 1], false, &looked.high);
      if (!status.ok()) return status;
      if (C::Compare(low, looked.high) >= 0) {
        return Damaged("a low fence that is damaged or out of order", offsets[i + 1]);
      }
    }
    looked.leaf->low = low;
    looked.leaf->high = looked.high;
    looked.leaf->right = i + 1 < count ? run->leaves[i + 1] : nullptr;
    if (settles_ && i % tree_.settling.stretch_leaves() == 0) {
      run->stretches.push_back({C::TextOf(low), i});
    }
    status = LookAt(&looked, run);
    low = looked.high;
    if (i + 1 < count) C::Keep(low);  // of this Mnode, and of the one before
  }
  return status;
}

template <class C>
absl::Status Recovery<C>::ReadLow(pmem::Offset offset, bool first_of_all, Separator* low) {
  const FenceWords fence = FenceOf(*tree_.BnodeAt(offset));
  if (tree_.codec.DecodeFence(fence, separators_.Current().texts, low) &&
      first_of_all == (fence.kind() == FenceWords::kMinusInfinity)) {
    return absl::OkStatus();
  }
  return Damaged("a low fence that is damaged or out of order", offset);
}

template <class C>
absl::Status Recovery<C>::MarkFence(pmem::Offset offset) {
  if constexpr (C::kRecords) {
    const FenceWords fence = FenceOf(*tree_.BnodeAt(offset));
    if (fence.kind() == FenceWords::kRecord &&
        tree_.slab.Mark(fence.record()) != pmem::UnitArena::MarkResult::kMarked) {
      return Damaged("a fence record with another owner", offset);
    }
  }
  return absl::OkStatus();
}

template <class C>
absl::Status Recovery<C>::LookAt(Looked* looked, LeafRun* run) {
  const media::Bnode& bnode = *looked->bnode;
  absl::Status status = MarkFence(pool_.OffsetOf(&bnode));
  if (status.ok()) status = LookAtWords(bnode);
  const uint64_t bitmap = bnode.bitmap.Load();
  for (uint64_t slots = bitmap; slots != 0 && status.ok(); slots &= slots - 1) {
    status = LookAtSlot(looked, static_cast<unsigned>(std::countr_zero(slots)));
  }
  if (!status.ok()) return status;
  looked->leaf->bnode = tree_.BnodeAt(pool_.OffsetOf(&bnode));
  looked->leaf->bitmap = bitmap & ~looked->overlap;
  run->keys += static_cast<uint64_t>(std::popcount(looked->leaf->bitmap));
  if (looked->overlap != 0 || IsMarkedDropped(bnode)) {
    run->overlaps.push_back({looked->leaf, looked->overlap});
  }
  return absl::OkStatus();
}

template <class C>
absl::Status Recovery<C>::LookAtWords(const media::Bnode& bnode) const {
  uint64_t watermark;
  if (!ReadChecked(bnode.watermark.Load(), &watermark)) {
    return Damaged("a damaged watermark in the leaf", pool_.OffsetOf(&bnode));
  }
  const uint64_t dropped = bnode.dropped.Load();
  if (dropped != 0 && dropped != media::kDropped) {
    return Damaged("a damaged mark in the leaf", pool_.OffsetOf(&bnode));
  }
  if ((bnode.bitmap.Load() & ~tree_.usable_slots()) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("leaf_slots is ", tree_.parameters.leaf_slots,
                     ", but a leaf of the pool has more pairs; open it with the larger value"));
  }
  return absl::OkStatus();
}

template <class C>
bool Recovery<C>::IsBelow(Pair pair, Separator separator) const {
  const uint64_t word = C::WordOf(separator, 0);
  if (pair.key != word || !C::kRecords) return pair.key < word;
  return !tree_.codec.KeyInRange(pair, separator, false, separator);
}

template <class C>
bool Recovery<C>::Has(const media::Bnode& bnode, Pair pair) const {
  bool has = false;
  for (uint64_t slots = bnode.bitmap.Load(); slots != 0; slots &= slots - 1) {
    const auto slot = static_cast<unsigned>(std::countr_zero(slots));
    has |= tree_.codec.SameKey(pair, SlotPair(bnode, slot));
  }
  return has;
}

// A key of the next leaf's range is there as well: it belongs to that leaf, with its record.
template <class C>
absl::Status Recovery<C>::LookAtSlot(Looked* looked, unsigned slot) {
  const Pair pair = SlotPair(*looked->bnode, slot);
  const C& codec = tree_.codec;
  const pmem::Offset where = pool_.OffsetOf(looked->bnode);
  if constexpr (C::kRecords) {
    if (!codec.PairIsSound(pair)) {
      return Damaged("a pair whose check bits do not fit in the leaf", where);
    }
  }
  const bool bounded = looked->right != nullptr;
  if ((Ties(pair, looked->low) || (bounded && Ties(pair, looked->high))) && !KeyFits(pair)) {
    return Damaged("a pair whose record has another key at the border of the leaf", where);
  }
  if (IsBelow(pair, looked->low)) return Damaged("a key below the low fence of the leaf", where);
  if (bounded && !IsBelow(pair, looked->high)) {
    if (!Has(*looked->right, pair)) {
      return Damaged("a key that is not below the next leaf's low fence in the leaf", where);
    }
    if (!medium_.Canary("sptree.recovery.copies_stay")) looked->overlap |= uint64_t{1} << slot;
    return absl::OkStatus();
  }
  if constexpr (C::kRecords) {
    if (C::IsRecord(pair.value) &&
        tree_.slab.Mark(C::RecordOf(pair.value)) != pmem::UnitArena::MarkResult::kMarked) {
      return Damaged("a pair whose record is none or another's in the leaf", where);
    }
  }
  const uint16_t hash = codec.HashOf(pair);
  // A pool that was closed in order has a checksum over its leaves instead.
  if (settles_ && TagsOf(*looked->bnode)[slot] != FingerprintOf(hash)) {
    return Damaged("a tag that is not its key's in the leaf", where);
  }
  looked->leaf->filter.Add(hash);
  return absl::OkStatus();
}

template class Recovery<Fixed64Codec>;
template class Recovery<BytesCodec>;

}  // namespace lodgekv::sptree
