// Last-level nodes whose buffers may hold back space: a delete that waits there keeps the pair that
// it deletes, a put the record that it replaces. A full pool drains these nodes, and need not look
// at any other.
//
// A list runs through the nodes, so that nothing is allocated. A node is in it at most once, and
// stays there when its buffer is drained by other means: in a pool with room each node is added
// once in its life.
//
// Thread safety: Add and Taken by whoever holds the node's lock, Take by one thread at a time.
#pragma once

#include <atomic>
#include <cstdint>

#include "index/lodgetree/last_level_node.h"

namespace lodgekv::lodgetree {

// `kMember` is the link, `kBit` the list's bit in Node::held.
template <class Node, Node* Node::*kMember, uint8_t kBit>
class HoldingNodes {
 public:
  void Add(Node* node) {
    if ((node->held & kBit) != 0) [[likely]]
      return;
    node->held |= kBit;
    Node* first = first_.load(std::memory_order_relaxed);
    do {
      node->*kMember = first;
    } while (!first_.compare_exchange_weak(first, node, std::memory_order_release,
                                           std::memory_order_relaxed));
  }

  // The one that has waited longest, so that more has gathered in its buffer; null: there is none.
  // The caller locks it and calls Taken before it looks at the buffer.
  Node* Take() {
    Node* node = taken_.load(std::memory_order_relaxed);
    if (node == nullptr) node = TakeAll();
    if (node != nullptr) taken_.store(node->*kMember, std::memory_order_relaxed);
    return node;
  }
  static void Taken(Node* node) { node->held &= static_cast<uint8_t>(~kBit); }

  bool empty() const {
    return first_.load(std::memory_order_relaxed) == nullptr &&
           taken_.load(std::memory_order_relaxed) == nullptr;
  }

 private:
  // Turned round: the one added first comes first.
  Node* TakeAll() {
    Node* reversed = nullptr;
    for (Node* node = first_.exchange(nullptr, std::memory_order_acquire); node != nullptr;) {
      Node* next = node->*kMember;
      node->*kMember = reversed;
      reversed = node;
      node = next;
    }
    return reversed;
  }

  std::atomic<Node*> first_{nullptr};  // added last
  std::atomic<Node*> taken_{nullptr};  // what is left of the list that was taken last
};

// Both lists.
template <class C>
class SpaceHolders {
 public:
  using Node = LastLevelNode<C>;
  using Deletes = HoldingNodes<Node, &Node::next_with_deletes, 1>;
  using Puts = HoldingNodes<Node, &Node::next_with_puts, 2>;

  Deletes& deletes() { return deletes_; }
  Puts& puts() { return puts_; }
  bool empty() const { return deletes_.empty() && puts_.empty(); }

  // What is buffered in the locked node.
  void Note(Node* node) {
    if (node->tombstones != 0) deletes_.Add(node);
    if (C::kRecords && node->buf_count != 0) puts_.Add(node);
  }

 private:
  Deletes deletes_;
  Puts puts_;  // codecs with records
};

}  // namespace lodgekv::lodgetree
