// Examines a leaf before anything of it is believed: in recovery, and at a first touch
// (first_touch.h). It sets the leaf's Mnode but for the range, marks what the leaf owns, and finds
// what a split or a merge that was cut short has left; StoreMended removes that.
//
// LeafExaminer reads the medium, and stores nothing there. Thread-safe for different leaves.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "index/node/recovery_tasks.h"
#include "index/sptree/mnode.h"

namespace lodgekv::sptree {

template <class C>
struct TreeState;

// A leaf and the range of its keys, while it is looked at.
template <class C>
struct Looked {
  const media::Bnode* bnode;
  const media::Bnode* right = nullptr;  // null: none
  typename C::Separator low{};
  typename C::Separator high = C::MinusInfinity();  // if there is no right one
  Mnode<C>* leaf = nullptr;
  uint64_t overlap = 0;  // slots whose keys are in the right one's range, to which they belong

  bool needs_mending() const { return overlap != 0 || IsMarkedDropped(*bnode); }
};

// Removes what was found in a leaf that needs mending: `overlap`, if any, and a mark. Flushed, not
// fenced; what this relies on is durable.
inline void StoreMended(pmem::Medium& medium, media::Bnode& bnode, uint64_t overlap) {
  if (overlap != 0) medium.Store(bnode.bitmap, bnode.bitmap.LoadRelaxed() & ~overlap);
  if (IsMarkedDropped(bnode)) medium.Store(bnode.dropped, 0);
  medium.FlushLine(&bnode);
}

template <class C>
class LeafExaminer {
 public:
  using Separator = typename C::Separator;
  // Whether a record may have been marked already: a batch's, which comes first, or last.
  enum class Marks : uint8_t { kFirst, kAny };

  // `unsealed`: the leaves have no checksum over them.
  LeafExaminer(TreeState<C>& tree, bool unsealed, Marks marks)
      : tree_(tree), unsealed_(unsealed), marks_(marks) {}

  absl::Status ReadLow(pmem::Offset offset, bool first_of_all, SeparatorTexts& texts,
                       Separator* low) const;
  absl::Status LookAt(Looked<C>* looked) const;

  static absl::Status MorePairs(const TreeState<C>& tree);
  static absl::Status Damaged(std::string_view what, pmem::Offset offset) {
    return DamagedPool("sptree", what, offset);
  }

 private:
  absl::Status MarkFence(pmem::Offset offset) const;
  absl::Status LookAtWords(const media::Bnode& bnode) const;
  absl::Status LookAtSlot(Looked<C>* looked, unsigned slot) const;
  bool MarkRecord(pmem::Offset record) const;
  bool IsBelow(Pair pair, Separator separator) const;
  // Does its record decide on which side of the separator it is?
  static bool Ties(Pair pair, Separator separator) {
    return C::kRecords && pair.key == C::WordOf(separator, 0);
  }
  bool KeyFits(Pair pair) const {
    if constexpr (C::kRecords) return tree_.codec.KeyFits(pair);
    return true;
  }

  TreeState<C>& tree_;
  const bool unsealed_;
  const Marks marks_;
};

}  // namespace lodgekv::sptree
