// The engine's options, with the paper's names; lodgetree.cc has their bounds and documentation.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "index/engine_info.h"
#include "index/lodgetree/layout.h"

namespace lodgekv::lodgetree {

inline constexpr unsigned kMaxTargets = kNodeSlots;  // leaves of one drain, at most
inline constexpr unsigned kMaxSplit = 8;

struct Parameters {
  unsigned node_slots;
  unsigned leaf_slots;
  unsigned t_node;
  unsigned t_split;
  unsigned log_entries;    // L
  unsigned hotness_ratio;  // t
  unsigned max_split;      // upper bound of M
  bool surrogate_buffer;
  bool leaf_count_flush;
  bool split_alone;
  bool multiple_split;
  bool use_n_split;
  bool log_reuse;
  bool deferred_close;
  bool mirror_records;
  uint64_t log_limit_bytes;
  // With more leaves than this no group can be too large for a split.
  unsigned crowded_below;

  explicit Parameters(const OptionValues& options);

  // Maximum number of leaves of a node.
  unsigned MaxIndex() const { return node_slots - 1; }
  uint32_t AllSlots() const { return (uint32_t{1} << leaf_slots) - 1; }
  // The number of leaves for so many pairs. Two leaves are filled to the last slot before there are
  // three: a single operation never has pairs for more. Above that, leaves are filled as far as
  // t_split says, but far enough that a node with a single leaf needs at most one new leaf for each
  // operation of a group.
  unsigned LeavesFor(size_t pairs) const {
    if (pairs <= t_split) return 1;
    if (pairs <= 2 * leaf_slots) return 2;
    const unsigned fill = std::max(t_split, (2 * leaf_slots + 3) / 3);
    return static_cast<unsigned>((pairs + fill - 1) / fill);
  }
};

}  // namespace lodgekv::lodgetree
