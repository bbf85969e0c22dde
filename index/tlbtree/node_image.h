// A node, or an anchor, that is written as a whole, into space that nobody reads yet; and the lower
// bounds that go into it. Plain values.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "index/tlbtree/tree_state.h"

namespace lodgekv::tlbtree {

template <class C>
class NodeImage {
 public:
  using Node = media::Node<C>;

  NodeImage() { SetState(NodeState()); }

  void SetState(const NodeState& state) { words_[0] = state.word(); }
  void SetLeftmost(pmem::Offset node) { words_[1] = CheckedWord(node); }
  void SetSibling(unsigned alt, const LinkTo& link) {
    SetLink(kSiblingWord + alt * kLinkWords, link);
  }
  void SetChild(unsigned slot, const LinkTo& link) {
    SetLink(kFirstWord + slot * kLinkWords, link);
  }
  // A leaf of `count` pairs, pair_at(0) and so on by ascending keys; in any slots if they are more
  // than `usable`. They begin in the last line but one, and after the last line comes the first. So
  // half a leaf is in three lines, with state and sibling, and what is free is beside the state and
  // in one other line.
  template <class PairAt>
  void SetPairs(unsigned count, unsigned usable, PairAt pair_at) {
    const unsigned slots = count > usable ? Node::kSlots : usable;
    const auto begin = static_cast<unsigned>(std::countr_zero(kSlotsOfLine<C>[kSiblingLine - 1]));
    const unsigned first = std::min(begin, slots - 1);
    for (unsigned i = 0; i < count; ++i) SetSlot((first + i) % slots, pair_at(i));
    SetState(NodeState::Ascending(first, count, slots));
  }

  // Stores the lines in use.
  void StoreTo(pmem::Medium& medium, Node* node) const {
    ForEachLine([&](size_t at, const void* line) {
      medium.StoreBulk(reinterpret_cast<char*>(node) + at, line, pmem::kLineBytes);
    });
  }
  void Flush(pmem::Medium& medium, const Node* node) const {
    ForEachLine([&](size_t at, const void*) {
      medium.FlushLine(reinterpret_cast<const char*>(node) + at);
    });
  }
  // Calls visit(place in the node, content) for each line in use.
  template <class Visit>
  void ForEachLine(Visit visit) const {
    for (unsigned line = 0; line < sizeof(words_) / pmem::kLineBytes; ++line) {
      if ((lines_ >> line & 1) != 0) visit(line * pmem::kLineBytes, words_ + line * kWordsOfLine);
    }
  }

 private:
  static constexpr unsigned kWordsOfLine = pmem::kLineBytes / sizeof(uint64_t);
  static constexpr unsigned kLinkWords = sizeof(media::Link<C>) / sizeof(uint64_t);
  static constexpr unsigned kFirstWord = Node::kHeaderBytes / sizeof(uint64_t);
  static constexpr unsigned kSiblingWord = offsetof(Node, sibling) / sizeof(uint64_t);

  void SetSlot(unsigned slot, Pair pair) {
    const unsigned at = kFirstWord + 2 * slot;
    words_[at] = pair.key;
    words_[at + 1] = pair.value;
    lines_ |= 1u << at / kWordsOfLine;
  }
  void SetLink(unsigned at, const LinkTo& link) {
    words_[at] = link.low.word;
    if constexpr (C::kRecords) words_[at + 1] = link.low.meta;
    words_[at + kLinkWords - 1] = link.word;
    lines_ |= 1u << at / kWordsOfLine | 1u << (at + kLinkWords - 1) / kWordsOfLine;
  }

  alignas(pmem::kLineBytes) uint64_t words_[sizeof(Node) / sizeof(uint64_t)] = {};
  uint32_t lines_ = 1;
};

// Stores an anchor, without a flush.
template <class C>
void StoreAnchor(TreeState<C>& tree, pmem::Offset offset, const AnchorRoot& root, pmem::Offset next,
                 const Low& low) {
  media::Anchor& anchor = *tree.AnchorAt(offset);
  const uint64_t words[] = {root.word(), CheckedWord(next),
                            0,           low.word,
                            low.meta,    LowCheck(tree.pool, offset, low),
                            0,           0};
  static_assert(sizeof(words) == sizeof(anchor));
  tree.medium.StoreBulk(&anchor, words, sizeof(words));
}

// A lower bound whose record is written to `space`, which has `bytes`; flushed. The space may be
// larger than the record.
template <class C>
Low MakeLowIn(TreeState<C>& tree, pmem::Offset space, uint64_t bytes, std::string_view text) {
  StagedRecord record = StageRecordAt(tree.pool, tree.slab, space, text, {}, 0);
  if (tree.slab.IsLarge(bytes) && !record.large) {
    tree.medium.Persist(tree.pool.template At<char>(space), record.bytes);
    tree.slab.Commit(space);
  }
  FinishRecord(tree.pool, record, tree.pool.TakeSequence(1));
  const FenceWords fence = FenceWords::Record(KeyWord(text, 0), space);
  return {fence.word, fence.meta};
}

// A lower bound with a record of its own, if it needs one, which is flushed. False: the pool is
// full.
template <class C>
bool MakeLow(TreeState<C>& tree, std::string_view text, pmem::ReservePolicy policy, Low* low) {
  if constexpr (!C::kRecords) {
    *low = {KeyWord(text, 0), 0};
  } else if (text.size() <= sizeof(uint64_t)) {
    FenceWords fence;
    if (!text.empty()) fence = FenceWords::Inline(KeyWord(text, 0), text.size());
    *low = {fence.word, fence.meta};
  } else {
    const uint64_t bytes = RecordBytes(text.size(), 0, false);
    const pmem::Offset space = tree.slab.Allocate(bytes, policy);
    if (space == 0) return false;
    *low = MakeLowIn(tree, space, bytes, text);
  }
  return true;
}

// The root of a sub-index over these leaves; flushed, not fenced. 0: the pool is full.
template <class C>
pmem::Offset MakeRoot(TreeState<C>& tree, std::span<const LinkTo> links) {
  const pmem::Offset offset = tree.NewUnit(tree.nodes, pmem::ReservePolicy::kKeep);
  if (offset == 0) return 0;
  NodeImage<C> image;
  image.SetLeftmost(links[0].node());
  // Those beside the state word stay free for the next entries, if there is room.
  const auto count = static_cast<unsigned>(links.size() - 1);
  const unsigned free = tree.parameters.node_slots - std::min(tree.parameters.node_slots, count);
  const unsigned first = std::min(kChildrenBesideState<C>, free);
  for (unsigned i = 0; i < count; ++i) {
    image.SetChild(first + i, MakeLink(links[i + 1].node(), links[i + 1].low));
  }
  image.SetState(NodeState::Ascending(first, count, media::Node<C>::kChildren));
  image.StoreTo(tree.medium, tree.NodeAt(offset));
  if (!tree.medium.Canary("tlbtree.sub_index.root_not_flushed")) {
    image.Flush(tree.medium, tree.NodeAt(offset));
  }
  return offset;
}

}  // namespace lodgekv::tlbtree
