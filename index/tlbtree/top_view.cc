#include "index/tlbtree/top_view.h"

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

}  // namespace lodgekv::tlbtree
