// Searches in one node, which may be changing: the caller validates its version afterwards.
// Whatever is read, no place beyond the node is.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "index/art/byte_search.h"
#include "index/art/node.h"

namespace lodgekv::art {

struct Hit {
  Child child;        // by the byte itself
  unsigned position;  // of it in a node whose children are adjacent: so many children are below
  bool has_below;     // some child is by a lower byte
};

template <class Search>
inline ByteMasks MasksOf(const Node4*, NodeInfo info, uint8_t byte) {
  uint32_t four;
  std::memcpy(&four, info.bytes, sizeof(four));
  return Search::CompareFour(four, byte);
}
template <class Search>
inline ByteMasks MasksOf(const Node16* node, NodeInfo, uint8_t byte) {
  return Search::Compare(node->bytes, byte);
}

template <class Search, class Sorted>
inline Hit FindSorted(const Sorted* node, NodeInfo info, uint8_t byte) {
  const ByteMasks masks = MasksOf<Search>(node, info, byte);
  const auto position = static_cast<unsigned>(std::popcount(_bzhi_u32(masks.less, info.count)));
  return {_bzhi_u32(masks.equal, info.count) == 0 ? Child() : node->children[position].Get(),
          position, position > 0};
}

template <class Search>
inline Hit FindIn(const Node4* node, NodeInfo info, uint8_t byte) {
  return FindSorted<Search>(node, info, byte);
}
template <class Search>
inline Hit FindIn(const Node16* node, NodeInfo info, uint8_t byte) {
  return FindSorted<Search>(node, info, byte);
}
template <class Search>
inline Hit FindIn(const Node48* node, NodeInfo info, uint8_t byte) {
  const unsigned position = std::min(node->Rank(info, byte), Node48::kCapacity);
  const bool found = node->present.Has(byte) && position < Node48::kCapacity;
  return {found ? node->children[position].Get() : Child(), position, position > 0};
}
template <class Search>
inline Hit FindIn(const Node256* node, NodeInfo info, uint8_t byte) {
  return {node->children[byte].Get(), byte, info.bytes[0] < byte};
}

// Part of the descent, which then keeps its state in registers: a call for each node, which ByKind
// with a lambda may be, made reads a third slower.
template <class Search>
[[gnu::always_inline]] inline Hit Find(Child at, NodeInfo info, uint8_t byte) {
  switch (at.kind()) {
    case Kind::k4: return FindIn<Search>(static_cast<const Node4*>(at.node()), info, byte);
    case Kind::k16: return FindIn<Search>(static_cast<const Node16*>(at.node()), info, byte);
    case Kind::k48: return FindIn<Search>(static_cast<const Node48*>(at.node()), info, byte);
    case Kind::k256: break;
  }
  return FindIn<Search>(static_cast<const Node256*>(at.node()), info, byte);
}

// The child by the greatest byte below `byte`, or else the terminal.
template <class Search>
inline Child GreatestBelow(Child at, uint8_t byte) {
  const NodeInfo info = at.node()->info();
  if (at.kind() == Kind::k256) {
    const auto* node = static_cast<const Node256*>(at.node());
    const int below = node->present.GreatestBelow(byte);
    return below < 0 ? node->terminal.Get() : node->children[below].Get();
  }
  return ByKind(at, [&](const auto* node) {
    const unsigned position = FindIn<Search>(node, info, byte).position;
    return position == 0 ? node->terminal.Get() : node->children[position - 1].Get();
  });
}

// The last child, or else the terminal.
inline Child Greatest(Child at) {
  const NodeInfo info = at.node()->info();
  if (at.kind() == Kind::k256) {
    const auto* node = static_cast<const Node256*>(at.node());
    const int last = node->present.GreatestBelow(256);
    return last < 0 ? node->terminal.Get() : node->children[last].Get();
  }
  if (info.count == 0) return at.node()->terminal.Get();
  return ByKind(at, [&](const auto* node) { return node->children[info.count - 1u].Get(); });
}

// The terminal, or else the first child.
inline Child Least(Child at) {
  const Child terminal = at.node()->terminal.Get();
  if (!terminal.empty()) return terminal;
  if (at.kind() == Kind::k256) {
    const auto* node = static_cast<const Node256*>(at.node());
    return node->children[node->present.Least() % Node256::kCapacity].Get();
  }
  return ByKind(at, [](const auto* node) { return node->children[0].Get(); });
}

}  // namespace lodgekv::art
