// Where the headers of a leaf are (LB+-Tree 3.4): each of its m blocks has its own header, and all
// but the first have an alternative place for it at their end.
#pragma once

#include <cstdint>

#include "index/lbtree/layout.h"
#include "index/node/codec.h"
#include "index/node/pending_word.h"

namespace lodgekv::lbtree {

inline bool AltOf(const media::Block* leaf) { return (leaf->header[0].Load() & media::kAlt) != 0; }

// The two words of block `b`'s header that alt value `alt` activates.
inline media::Word* HeaderWords(media::Block* leaf, unsigned b, bool alt) {
  return b == 0 || !alt ? leaf[b].header : leaf[b].tail;
}
inline const media::Word* HeaderWords(const media::Block* leaf, unsigned b, bool alt) {
  return b == 0 || !alt ? leaf[b].header : leaf[b].tail;
}

// The line that holds it, from which entry moving takes entries.
constexpr unsigned HeaderLine(unsigned b, bool alt) { return b == 0 || !alt ? 0 : kBlockLines - 1; }

inline Header LoadHeader(const media::Word* words) {
  return {{words[0].Load(), words[1].LoadRelaxed()}};
}

// A leaf as a reader may see it: only durable content. `pending` belongs to the leaf's lock; null:
// readers wait while a commit is in progress. The leaf may be changing: the caller validates.
class LeafView {
 public:
  LeafView(const media::Block* leaf, const PendingWord* pending)
      : leaf_(leaf), pending_(pending), alt_((Load(leaf[0].header[0]) & media::kAlt) != 0) {}

  // Of a leaf of one block, whose readers wait: nothing of the above is looked up.
  static LeafView OfOneBlock(const media::Block* leaf) { return LeafView(leaf); }

  bool alt() const { return alt_; }
  const media::Word* HeaderAt(unsigned b) const { return HeaderWords(leaf_, b, alt_); }
  // The slots of block `b` in its bitmap.
  uint32_t SlotsOf(unsigned b) const {
    return static_cast<uint32_t>(Load(HeaderAt(b)[0]) & media::kBitmapMask);
  }
  Pair PairAt(unsigned b, unsigned slot) const {
    const media::Slot& at = leaf_[b].slots[slot];
    return {at.key.LoadRelaxed(), Load(at.value)};
  }

 private:
  explicit LeafView(const media::Block* leaf) : leaf_(leaf), pending_(nullptr), alt_(false) {}

  uint64_t Load(const media::Word& word) const {
    return pending_ == nullptr ? word.Load() : pending_->Durable(word);
  }

  const media::Block* leaf_;
  const PendingWord* pending_;
  bool alt_;
};

// Which of its two places the header of block `b` is in; that of the first block has one.
inline bool AltOfBlock(const media::Block* leaf, unsigned b) { return b != 0 && AltOf(leaf); }

// The active header of block `b`.
inline Header HeaderOf(const media::Block* leaf, unsigned b) {
  return LoadHeader(HeaderWords(leaf, b, AltOfBlock(leaf, b)));
}

inline Pair SlotPair(const media::Block& block, unsigned slot) {
  return {block.slots[slot].key.LoadRelaxed(), block.slots[slot].value.LoadRelaxed()};
}

}  // namespace lodgekv::lbtree
