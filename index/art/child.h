// What a slot of a node refers to: nothing, a leaf of the tree, or a node and its kind, in one
// word.
//
// The address of a leaf's word and of a node are multiples of 8: the low bits of a node's say what
// kind it is. So a descent knows that before it reads the node (DaMoN 2016 has it in the node).
// Addresses have 48 bits. The high ones of a leaf's word are its *hint*: the next two bytes of its
// key, behind those by which the tree leads to it. A search whose key has others there knows on
// which side of the leaf it is without reading it.
#pragma once

#include <atomic>
#include <cstdint>

namespace lodgekv::art {

struct Node;

enum class Kind : uint8_t { k4 = 1, k16 = 2, k48 = 3, k256 = 4 };
inline constexpr unsigned kKinds = 4;

class Child {
 public:
  constexpr Child() = default;  // nothing
  explicit Child(uint64_t word) : word_(word) {}
  // `hint`: see above; zeros where the key has ended.
  static Child OfLeaf(const void* below, uint16_t hint) {
    return Child(uint64_t{hint} << kAddressBits | reinterpret_cast<uint64_t>(below));
  }
  static Child OfNode(const Node* node, Kind kind) {
    return Child(reinterpret_cast<uint64_t>(node) | static_cast<uint64_t>(kind));
  }

  bool empty() const { return word_ == 0; }
  bool is_node() const { return (word_ & kTag) != 0; }
  // Of a node.
  Kind kind() const { return static_cast<Kind>(word_ & kTag); }
  Node* node() const { return reinterpret_cast<Node*>(word_ & ~kTag); }
  // Of a leaf.
  void* below() const { return reinterpret_cast<void*>(word_ & ~(~uint64_t{0} << kAddressBits)); }
  uint16_t hint() const { return static_cast<uint16_t>(word_ >> kAddressBits); }
  Child WithHint(uint16_t hint) const { return OfLeaf(below(), hint); }

  uint64_t word() const { return word_; }
  bool operator==(const Child&) const = default;

 private:
  static constexpr uint64_t kTag = 7;
  static constexpr unsigned kAddressBits = 48;
  uint64_t word_ = 0;
};

// A place in a node. Readers may read it while it changes, so it is never torn.
class Slot {
 public:
  Child Get() const { return Child(word_.load(std::memory_order_relaxed)); }
  void Set(Child child) { word_.store(child.word(), std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> word_{0};
};
static_assert(sizeof(Slot) == 8);

}  // namespace lodgekv::art
