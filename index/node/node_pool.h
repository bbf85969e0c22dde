// Allocates the lowest nodes in DRAM of a tree. The memory of a removed node is reused; its lock's
// version continues, so that a thread that read the old node notices the change. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "index/node/dram_arena.h"
#include "index/node/version_lock.h"

namespace lodgekv {

template <class Node, class Arena = DramArena>
class NodePool {
 public:
  explicit NodePool(Arena& dram) : dram_(dram) {}

  uint64_t count() const { return count_.load(std::memory_order_relaxed); }

  // The caller sets every field, except the lock, which keeps its version, and what other threads
  // may still look at, for which one of them may have locked the node.
  Node* New() {
    const std::lock_guard lock(mutex_);
    Count(1);
    if (free_.empty()) return Fresh();
    Node* node = free_.back();
    free_.pop_back();
    for (Backoff backoff; !node->lock.TryLock();) backoff.Pause();
    return node;
  }

  // For recovery: nodes that are adjacent in memory.
  void Make(std::span<Node*> nodes) {
    auto* space = static_cast<Node*>(dram_.Allocate(nodes.size() * sizeof(Node)));
    for (size_t i = 0; i < nodes.size(); ++i) nodes[i] = new (space + i) Node{};
    const std::lock_guard lock(mutex_);
    Count(nodes.size());
  }

  // The node is unlocked, and out of the tree; readers may still read it.
  void Free(Node* node) {
    const std::lock_guard lock(mutex_);
    free_.push_back(node);
    Count(uint64_t{0} - 1);
  }

 private:
  // Small nodes are adjacent in memory, since the arena's units are larger.
  static constexpr size_t kAtOnce = sizeof(Node) >= 1024 ? 1 : 4096 / sizeof(Node);

  Node* Fresh() {
    if (fresh_left_ == 0) {
      fresh_ = static_cast<std::byte*>(dram_.Allocate(kAtOnce * sizeof(Node)));
      fresh_left_ = kAtOnce;
    }
    --fresh_left_;
    return new (std::exchange(fresh_, fresh_ + sizeof(Node))) Node{};
  }
  void Count(uint64_t more) {
    count_.store(count_.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }

  Arena& dram_;
  std::atomic<uint64_t> count_{0};  // changes under the mutex
  std::mutex mutex_;
  std::vector<Node*> free_;
  std::byte* fresh_ = nullptr;  // never used, so many nodes of them
  size_t fresh_left_ = 0;
};

}  // namespace lodgekv
