#include "index/tlbtree/top_view.h"

#include <bit>

#include "index/node/word_search.h"

namespace lodgekv::tlbtree {

TopShape TopShape::Of(uint64_t leaf_nodes) {
  TopShape shape;
  // From the lowest level up; then turned around.
  std::array<uint64_t, kTopMaxLevels> up{};
  for (uint64_t children = leaf_nodes;; children = (children + kTopFanout - 1) / kTopFanout) {
    up[shape.levels++] = children;
    if (children <= kTopFanout || shape.levels == kTopMaxLevels) break;
  }
  uint64_t at = sizeof(media::TopHeader);
  for (unsigned level = 0; level < shape.levels; ++level) {
    const uint64_t children = up[shape.levels - 1 - level];
    shape.children[level] = children;
    shape.at[level] = at;
    at += (children + kTopFanout - 1) / kTopFanout * kTopFanout * sizeof(uint64_t);
  }
  shape.leaves_at = at;
  shape.bytes = at + leaf_nodes * sizeof(media::TopLeaf);
  return shape;
}

bool TopView::Read(char* content, uint64_t bytes, uint32_t crc_seed, TopView* view) {
  if (bytes < sizeof(media::TopHeader)) return false;
  const auto& header = *reinterpret_cast<const media::TopHeader*>(content);
  const uint64_t leaf_nodes = header.leaf_nodes.Load();
  const uint64_t prefix_bytes = header.prefix_bytes.Load();
  const bool sound = header.checksum.Load() == ChecksumOf(header, crc_seed) && leaf_nodes > 0 &&
                     leaf_nodes <= bytes / sizeof(media::TopLeaf) &&
                     prefix_bytes <= kTopPrefixBytes && TopShape::Of(leaf_nodes).bytes == bytes;
  if (!sound) return false;
  view->content_ = content;
  view->shape_ = TopShape::Of(leaf_nodes);
  view->leaf_nodes_ = leaf_nodes;
  view->entries_ = header.entries.Load();
  view->prefix_ = {header.prefix, prefix_bytes};
  return true;
}

// Those that are not used are the last ones.
uint64_t TopView::UsedChildren(unsigned level) const {
  uint64_t used = 0;
  uint64_t end = shape_.children[level];
  while (used < end) {
    const uint64_t middle = used + (end - used) / 2;
    if (KeyAt(level, middle).Load() != kTopUnused) {
      used = middle + 1;
    } else {
      end = middle;
    }
  }
  return used;
}

// To the children of the lowest level that has not too many; for all words but those before its
// second child, and those of the last one.
void TopView::DrawShortcuts() {
  unsigned level = levels() - 1;
  uint64_t used = UsedChildren(level);
  while (used > TopShortcuts::kMost) used = UsedChildren(--level);
  if (level == 0 || used < kFewestChildren) return;
  const uint64_t first = KeyAt(level, 1).Load();
  const uint64_t last = KeyAt(level, used - 1).Load();
  if (first >= last) return;
  shortcuts_ = TopShortcuts(used, {first, last - 1});
  shortcut_level_ = level;
}

// The last child of the level whose first key's word is not above `word`; 0: all are.
uint64_t TopView::ChildFor(unsigned level, uint64_t word) const {
  uint64_t node = 0;
  for (unsigned at = 0; at <= level; ++at) {
    const auto rank = static_cast<unsigned>(std::popcount(NotAbove(NodeAt(at, node), word)));
    const uint64_t child = node * kTopFanout + (rank == 0 ? 0 : rank - 1);
    node = std::min(child, shape_.children[at] - 1);
  }
  return node;
}

// What follows the last node tells where its words end; if nothing does yet, they may end anywhere.
TopShortcuts::Nodes TopView::NodesOf(TopShortcuts::Range range) const {
  const unsigned level = shortcut_level_;
  const uint64_t last = ChildFor(level, range.last);
  if (last + 1 == children(level)) return {};
  const uint64_t end = KeyAt(level, last + 1).Load();
  if (end == kTopUnused || end <= range.last) return {};
  const uint64_t first = range.first == 0 ? 0 : ChildFor(level, range.first - 1);
  return {first, last, KeyAt(level, last).Load()};
}

}  // namespace lodgekv::tlbtree
