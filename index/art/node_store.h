// Allocates the tree's nodes. The memory of a removed node is reused for one of its kind, and its
// lock's version continues: a reader with a stale address reads a node of the kind that it expects,
// and notices. It does so without epochs, which readers of `fixed64` keys do not enter
// (index/node/dram_arena.h): it took its version either before the node was removed, which
// published it, or after, and then it came from a node, or the root, that had changed, and
// validates that one before it uses anything that it has read. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "index/art/child.h"
#include "index/node/dram_arena.h"

namespace lodgekv::art {

class NodeStore {
 public:
  explicit NodeStore(DramArena& arena) : arena_(arena) {}
  NodeStore(const NodeStore&) = delete;
  NodeStore& operator=(const NodeStore&) = delete;

  // Without prefix, terminal and children, and unlocked.
  Child New(Kind kind);
  // Nothing refers to the node any more; it was published since, and is unlocked.
  void Free(Child node);

  // Nodes of the kind that are in use.
  uint64_t count(Kind kind) const { return ListOf(kind).count.load(std::memory_order_relaxed); }
  // Bytes of the nodes in use, and of all that were ever needed at once.
  uint64_t used_bytes() const;
  uint64_t held_bytes() const { return held_bytes_.load(std::memory_order_relaxed); }

 private:
  struct List {
    std::atomic<uint64_t> count{0};
    std::mutex mutex;
    std::vector<Child> free;
  };
  List& ListOf(Kind kind) { return lists_[static_cast<unsigned>(kind) - 1]; }
  const List& ListOf(Kind kind) const { return lists_[static_cast<unsigned>(kind) - 1]; }
  Child Reuse(Kind kind);
  Child Make(Kind kind);

  DramArena& arena_;
  std::atomic<uint64_t> held_bytes_{0};
  List lists_[kKinds];
};

}  // namespace lodgekv::art
