// Last-level nodes whose buffers may keep space from being freed: a buffered delete keeps the pair
// that it deletes, a buffered put the record that it replaces. A full pool drains these nodes, and
// need not examine any other.
//
// The queue is linked through the nodes, so that nothing is allocated. A node is queued at most
// once, and stays queued when its buffer is drained for other reasons: in a pool with room each
// node is added only once.
//
// Invariants
//  1. last_ is null exactly when nothing is queued.
//  2. The links lead from first_ to last_, except at a node whose Add is between its two stores:
//     the nodes after it cannot be reached until it has made the second one.
//
// Thread safety: Add and Taken for the holder of the node's lock, Take for one thread at a time.
// Each takes a constant number of steps and never waits.
#pragma once

#include <atomic>
#include <cstdint>

#include "index/lodgetree/last_level_node.h"

namespace lodgekv::lodgetree {

// `kMember` is the link, `kBit` the queue's bit in Node::held.
template <class Node, std::atomic<Node*> Node::*kMember, uint8_t kBit>
class HoldingNodes {
 public:
  void Add(Node* node) {
    if ((node->held & kBit) != 0) [[likely]]
      return;
    node->held |= kBit;
    (node->*kMember).store(nullptr, std::memory_order_relaxed);
    Node* before = last_.exchange(node, std::memory_order_acq_rel);
    std::atomic<Node*>& link = before == nullptr ? first_ : before->*kMember;
    link.store(node, std::memory_order_release);
  }

  // Returns the node that was queued first, whose buffer has had most time to fill; null: there is
  // none, or it is being added. The caller locks it and calls Taken before it examines the buffer.
  Node* Take() {
    Node* node = first_.load(std::memory_order_acquire);
    if (node == nullptr) return nullptr;
    Node* next = (node->*kMember).load(std::memory_order_acquire);
    // Before an Add that finds the queue empty, which stores to first_.
    first_.store(next, std::memory_order_relaxed);
    if (next != nullptr) return node;
    Node* expected = node;
    if (last_.compare_exchange_strong(expected, nullptr, std::memory_order_acq_rel)) return node;
    first_.store(node, std::memory_order_relaxed);
    return nullptr;
  }
  static void Taken(Node* node) { node->held &= static_cast<uint8_t>(~kBit); }

  bool empty() const { return last_.load(std::memory_order_relaxed) == nullptr; }

 private:
  std::atomic<Node*> first_{nullptr};  // added first
  std::atomic<Node*> last_{nullptr};   // added last
};

// Both queues.
template <class C>
class SpaceHolders {
 public:
  using Node = LastLevelNode<C>;
  using Deletes = HoldingNodes<Node, &Node::next_with_deletes, 1>;
  using Puts = HoldingNodes<Node, &Node::next_with_puts, 2>;

  Deletes& deletes() { return deletes_; }
  Puts& puts() { return puts_; }
  bool empty() const { return deletes_.empty() && puts_.empty(); }

  // Queues the locked node for what is buffered in it.
  void Note(Node* node) {
    if (node->tombstones != 0) deletes_.Add(node);
    if (C::kRecords && node->buf_count != 0) puts_.Add(node);
  }

 private:
  Deletes deletes_;
  Puts puts_;  // codecs with records
};

}  // namespace lodgekv::lodgetree
