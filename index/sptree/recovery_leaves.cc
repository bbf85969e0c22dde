// What recovery finds on the medium: the chain of leaves, and what is in them.
#include <bit>
#include <string>

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
absl::Status Recovery<C>::FindFirst(pmem::Offset* first) const {
  const pmem::Word& word = pool_.engine_area()[media::kFirstLeaf];
  if (ReadChecked(word.Load(), first) && tree_.bnodes.IsUnit(*first)) return absl::OkStatus();
  return Damaged("a first leaf that is none", pool_.OffsetOf(&word));
}

template <class C>
absl::Status Recovery<C>::FindLeaves() {
  pmem::Offset first;
  if (absl::Status status = FindFirst(&first); !status.ok()) return status;
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
  SeparatorTexts& texts = separators_.Current().texts;
  absl::Status status = examiner_.ReadLow(offsets[0], begin == 0, texts, &low);
  for (size_t i = 0; i < count && status.ok(); ++i) {
    if (i + kLeavesAhead < offsets.size()) {
      PrefetchLines(pool_.At<char>(offsets[i + kLeavesAhead]), kFetchedBytes);
    }
    Looked<C> looked{.bnode = tree_.BnodeAt(offsets[i]),
                     .right = nullptr,
                     .low = low,
                     .high = C::MinusInfinity(),
                     .leaf = run->leaves[i]};
    if (i + 1 < offsets.size()) {
      looked.right = tree_.BnodeAt(offsets[i + 1]);
      status = examiner_.ReadLow(offsets[i + 1], false, texts, &looked.high);
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
    status = examiner_.LookAt(&looked);
    if (!status.ok()) break;
    run->keys += static_cast<uint64_t>(std::popcount(looked.leaf->bitmap));
    if (looked.needs_mending()) run->overlaps.push_back({looked.leaf, looked.overlap});
    low = looked.high;
    if (i + 1 < count) C::Keep(low);  // of this Mnode, and of the one before
  }
  return status;
}

template class Recovery<Fixed64Codec>;
template class Recovery<BytesCodec>;

}  // namespace lodgekv::sptree
