// Builds a tree from all lower nodes at once, on several threads: each makes what is under some
// slots. A range of neighbours whose keys have the same bytes up to a depth becomes a node there
// and ranges under it. For recovery
// (ICDE 2013, "Bulk Loading").
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "index/art/key.h"
#include "index/art/node_change.h"
#include "index/art/tree.h"
#include "index/node/recovery_tasks.h"

namespace lodgekv::art {

template <class Below, class KeyOf>
class Builder {
 public:
  using Its = Tree<Below, KeyOf>;
  using Key = typename Its::Key;

  // The tree is empty, and nobody uses it. The keys of `all` ascend strictly.
  Builder(Its& tree, std::span<Below* const> all) : parts_(tree.parts()), all_(all) {}

  void Build(unsigned threads);

 private:
  // all_[begin, end), at least one, whose keys have the same first `depth` bytes, go into `slot`.
  struct Range {
    Slot* slot;
    size_t begin;
    size_t end;
    size_t depth;
    size_t size() const { return end - begin; }
  };
  static constexpr size_t kPiece = 512;  // a range up to this size is one task
  static constexpr size_t kTasks = 4096;

  std::vector<Range> Pieces();
  void BuildAll(const Range& range);
  void Divide(const Range& range, std::vector<Range>* below);
  size_t EndOfByte(size_t at, size_t end, size_t depth) const;

  Key KeyAt(size_t i) const { return parts_.leaves.key_of(all_[i]); }
  Child LeafAt(size_t i, size_t depth) const {
    return Child::OfLeaf(all_[i], HintAt(KeyAt(i), depth));
  }

  typename Its::Parts& parts_;
  const std::span<Below* const> all_;
};

template <class Below, class KeyOf>
void Builder<Below, KeyOf>::Build(unsigned threads) {
  parts_.size.store(all_.size(), std::memory_order_relaxed);
  if (all_.empty()) return;
  const std::vector<Range> pieces = Pieces();
  (void)RunTasks(pieces.size(), threads, [&](size_t i) {
    BuildAll(pieces[i]);
    return absl::OkStatus();
  });
}

// The nodes of the upper levels are made here.
template <class Below, class KeyOf>
auto Builder<Below, KeyOf>::Pieces() -> std::vector<Range> {
  std::vector<Range> pieces;
  std::vector<Range> large = {{&parts_.root.child, 0, all_.size(), 0}};
  while (!large.empty() && pieces.size() + large.size() < kTasks) {
    std::vector<Range> below;
    for (const Range& range : large) {
      if (range.size() <= kPiece) {
        pieces.push_back(range);
      } else {
        Divide(range, &below);
      }
    }
    large.swap(below);
  }
  pieces.insert(pieces.end(), large.begin(), large.end());
  return pieces;
}

// A list instead of recursion: keys may be as deep as they are long.
template <class Below, class KeyOf>
void Builder<Below, KeyOf>::BuildAll(const Range& range) {
  std::vector<Range> left = {range};
  while (!left.empty()) {
    const Range next = left.back();
    left.pop_back();
    Divide(next, &left);
  }
}

// The end of the keys from `at` on that have the same byte at `depth`.
template <class Below, class KeyOf>
size_t Builder<Below, KeyOf>::EndOfByte(size_t at, size_t end, size_t depth) const {
  const uint8_t byte = ByteAt(KeyAt(at), depth);
  size_t step = 1;
  while (at + step < end && ByteAt(KeyAt(at + step), depth) == byte) step *= 2;
  size_t low = at + step / 2;  // has the byte
  size_t high = std::min(at + step, end);
  while (low + 1 < high) {
    const size_t middle = low + (high - low) / 2;
    (ByteAt(KeyAt(middle), depth) == byte ? low : high) = middle;
  }
  return high;
}

template <class Below, class KeyOf>
void Builder<Below, KeyOf>::Divide(const Range& range, std::vector<Range>* below) {
  if (range.size() == 1) {
    range.slot->Set(LeafAt(range.begin, range.depth));
    return;
  }
  const Key first = KeyAt(range.begin);
  const size_t branches_at = FirstDifference(first, KeyAt(range.end - 1), range.depth);
  const bool ends = LengthOf(first) == branches_at;
  size_t borders[257];
  unsigned count = 0;
  borders[0] = range.begin + (ends ? 1 : 0);
  while (borders[count] < range.end) {
    borders[count + 1] = EndOfByte(borders[count], range.end, branches_at);
    ++count;
  }
  const Child node = parts_.nodes.New(KindFor(count));
  node.node()->SetPrefix(WordAt(first, range.depth), branches_at - range.depth);
  if (ends) node.node()->terminal.Set(LeafAt(range.begin, branches_at));
  for (unsigned i = 0; i < count; ++i) {
    Add(node, ByteAt(KeyAt(borders[i]), branches_at), LeafAt(borders[i], branches_at + 1));
  }
  for (unsigned i = 0; i < count; ++i) {
    if (borders[i] + 1 == borders[i + 1]) continue;  // the leaf is there
    Slot* slot = SlotOf(node, i, ByteAt(KeyAt(borders[i]), branches_at));
    below->push_back({slot, borders[i], borders[i + 1], branches_at + 1});
  }
  range.slot->Set(node);
}

}  // namespace lodgekv::art
