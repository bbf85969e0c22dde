// Changes of one node, by the holder of its lock while it publishes, or before anyone can see it.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>

#include "index/art/node.h"
#include "index/art/node_search.h"

namespace lodgekv::art {

// Room is made at, or taken away from, `position` among `count` slots.
inline void Widen(Slot* slots, unsigned position, unsigned count) {
  for (unsigned i = count; i > position; --i) slots[i].Set(slots[i - 1].Get());
}
inline void Narrow(Slot* slots, unsigned position, unsigned count) {
  for (unsigned i = position; i + 1 < count; ++i) slots[i].Set(slots[i + 1].Get());
  slots[count - 1].Set(Child());
}

// The bytes of a node that stores them sorted, to be changed, and put back into it.
inline uint8_t* BytesOf(Node4*, NodeInfo& info) { return info.bytes; }
inline uint8_t* BytesOf(Node16* node, NodeInfo&) { return node->bytes; }

template <class Sorted>
inline void AddTo(Sorted* node, NodeInfo info, uint8_t byte, Child child) {
  const unsigned position = FindIn<SearchBytesByPointer>(node, info, byte).position;
  uint8_t* bytes = BytesOf(node, info);
  std::memmove(bytes + position + 1, bytes + position, info.count - position);
  bytes[position] = byte;
  Widen(node->children, position, info.count);
  node->children[position].Set(child);
  ++info.count;
  node->SetInfo(info);
}
inline void AddTo(Node48* node, NodeInfo info, uint8_t byte, Child child) {
  const unsigned position = node->Rank(info, byte);
  Widen(node->children, position, info.count);
  node->children[position].Set(child);
  node->present.Put(byte, true);
  for (unsigned word = byte / 64 + 1u; word < 4; ++word) ++info.bytes[word];
  ++info.count;
  node->SetInfo(info);
}
inline void AddTo(Node256* node, NodeInfo info, uint8_t byte, Child child) {
  node->children[byte].Set(child);
  node->present.Put(byte, true);
  info.bytes[0] = static_cast<uint8_t>(node->present.Least());
  ++info.count;
  node->SetInfo(info);
}

template <class Sorted>
inline void DropFrom(Sorted* node, NodeInfo info, uint8_t byte) {
  const unsigned position = FindIn<SearchBytesByPointer>(node, info, byte).position;
  uint8_t* bytes = BytesOf(node, info);
  std::memmove(bytes + position, bytes + position + 1, info.count - position - 1u);
  Narrow(node->children, position, info.count);
  --info.count;
  node->SetInfo(info);
}
inline void DropFrom(Node48* node, NodeInfo info, uint8_t byte) {
  Narrow(node->children, node->Rank(info, byte), info.count);
  node->present.Put(byte, false);
  for (unsigned word = byte / 64 + 1u; word < 4; ++word) --info.bytes[word];
  --info.count;
  node->SetInfo(info);
}
inline void DropFrom(Node256* node, NodeInfo info, uint8_t byte) {
  node->children[byte].Set(Child());
  node->present.Put(byte, false);
  info.bytes[0] = static_cast<uint8_t>(node->present.Least());
  --info.count;
  node->SetInfo(info);
}

// There is room, and no child by `byte`.
inline void Add(Child at, uint8_t byte, Child child) {
  ByKind(at, [&](auto* node) { AddTo(node, node->info(), byte, child); });
}
// There is such a child.
inline void Drop(Child at, uint8_t byte) {
  ByKind(at, [&](auto* node) { DropFrom(node, node->info(), byte); });
}
inline void SetChild(Child at, uint8_t byte, Child child) {
  ByKind(at, [&](auto* node) {
    node->children[FindIn<SearchBytesByPointer>(node, node->info(), byte).position].Set(child);
  });
}

// Calls work(byte, child) for each child, ascending.
template <class Sorted, class Work>
inline void EachOf(Sorted* node, Work work) {
  NodeInfo info = node->info();
  const uint8_t* bytes = BytesOf(node, info);
  for (unsigned i = 0; i < info.count; ++i) work(bytes[i], node->children[i].Get());
}
template <class Work>
inline void EachOf(Node48* node, Work work) {
  unsigned position = 0;
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (node->present.Has(byte)) {
      work(static_cast<uint8_t>(byte), node->children[position++].Get());
    }
  }
}
template <class Work>
inline void EachOf(Node256* node, Work work) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (node->present.Has(byte)) work(static_cast<uint8_t>(byte), node->children[byte].Get());
  }
}
template <class Work>
inline void EachChild(Child at, Work work) {
  ByKind(at, [&](auto* node) { EachOf(node, work); });
}

// Of the child at `position`, which is by `byte`.
inline Slot* SlotOf(Child at, unsigned position, uint8_t byte) {
  return ByKind(
      at, [&](auto* node) { return &node->children[at.kind() == Kind::k256 ? byte : position]; });
}

inline unsigned CapacityOf(Kind kind) {
  constexpr unsigned kCapacities[kKinds + 1] = {0, Node4::kCapacity, Node16::kCapacity,
                                                Node48::kCapacity, Node256::kCapacity};
  return kCapacities[static_cast<unsigned>(kind)];
}
// The smallest kind for so many children.
inline Kind KindFor(unsigned count) {
  for (const Kind kind : {Kind::k4, Kind::k16, Kind::k48}) {
    if (count <= CapacityOf(kind)) return kind;
  }
  return Kind::k256;
}
// From so few children on a node is replaced by one of the next smaller kind: fewer than that kind
// holds, so that nodes do not grow and shrink by turns.
inline unsigned ShrinksAt(Kind kind) {
  constexpr unsigned kLimits[kKinds + 1] = {0, 0, 3, 12, 37};
  return kLimits[static_cast<unsigned>(kind)];
}

// Gives `node` the bytes of the node above it and the one that leads from there: prefixes that the
// nodes show need no others.
inline void PutBefore(const Node& above, uint8_t byte, Node& node) {
  const size_t first = above.info().prefix_length;
  uint64_t prefix = above.shown_prefix();
  if (first < kShownPrefix) {
    prefix |= uint64_t{byte} << (56 - 8 * first);
    if (first + 1 < kShownPrefix) prefix |= node.shown_prefix() >> 8 * (first + 1);
  }
  node.SetPrefix(prefix, first + 1 + node.info().prefix_length);
}

// Everything but the lock. `to` is empty, and of a kind with room for it.
inline void CopyNode(Child from, Child to) {
  const Node& node = *from.node();
  to.node()->SetPrefix(node.shown_prefix(), node.info().prefix_length);
  to.node()->terminal.Set(node.terminal.Get());
  EachChild(from, [&](uint8_t byte, Child child) { Add(to, byte, child); });
}

}  // namespace lodgekv::art
