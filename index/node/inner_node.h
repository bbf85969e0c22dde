// A node of the volatile upper levels of a tree. Its invariants, and its operations, are those of
// the tree (inner_tree.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "index/node/inner_child.h"
#include "index/node/prefetch.h"
#include "index/node/version_lock.h"

namespace lodgekv {

inline constexpr unsigned kInnerCapacity = 30;  // separators of a node

// What a codec with equal words (kRecords) stores besides the words.
template <class Separator, bool kTies>
struct InnerSeparators {
  Separator low;   // the node's bounds
  Separator high;  // only when bounded
  Separator at[kInnerCapacity];
};
template <class Separator>
struct InnerSeparators<Separator, false> {};

template <class C>
struct alignas(64) InnerNode {
  using Separator = typename C::Separator;

  VersionLock lock;
  uint16_t count;  // separators; there is one more child
  uint8_t level;   // 1: children are the lower nodes
  bool bounded;    // `high` is set
  bool check_prefix;
  uint8_t reserved[3];
  uint64_t words[kInnerCapacity];
  InnerChild children[kInnerCapacity + 1];
  uint32_t prefix;
  [[no_unique_address]] InnerSeparators<Separator, C::kRecords> separators;

  // Of a node whose level is above 1.
  InnerNode* NodeAt(unsigned i) const { return static_cast<InnerNode*>(children[i].node()); }
  Separator SeparatorAt(unsigned i) const {
    if constexpr (C::kRecords) {
      return separators.at[i];
    } else {
      return words[i];
    }
  }
  void SetSeparator(unsigned i, Separator separator) {
    if constexpr (C::kRecords) separators.at[i] = separator;
    words[i] = C::WordOf(separator, prefix);
  }
  // All that a descent reads: the words and the children.
  void PrefetchForSearch() const {
    PrefetchLines(this, offsetof(InnerNode, children) + sizeof(children));
  }
  // All lines at once: which child will be read is known only when the words are here. The words
  // themselves are read at once, all of them.
  void PrefetchChildren() const { PrefetchLines(children, sizeof(children)); }
  // Whether the separator at `i`, whose word is the key's, is above the key or, if `or_equal`, is
  // the key. May read a node that is changing.
  [[gnu::noinline]] bool IsAbove(unsigned i, const typename C::Key& key, bool or_equal) const {
    const Separator separator = SeparatorAt(i);
    if constexpr (C::kRecords) {
      if (separator == nullptr) return true;
    }
    const int order = C::CompareToKey(separator, key);
    return order > 0 || (order == 0 && or_equal);
  }
};

}  // namespace lodgekv
