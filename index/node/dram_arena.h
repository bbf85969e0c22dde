// Space for volatile nodes and for the texts of separators: allocated in 64-byte units, and freed
// all at once when the arena is destroyed; until then its user reuses it, for the same kind of
// object only. It stays mapped, so a reader with a stale pointer reads a node, if perhaps another
// one. Thread-safe.
//
// Space of one kind is never reused for another, not even after epochs. A descent takes a child's
// version, or compares a separator's text, before it validates the node that led there
// (inner_tree.h, invariant 5), and the slot that it read may have been that node's in an earlier
// use, however long ago: no epoch bounds that. Nor do readers of `fixed64` pools enter one at all.
// So nodes are reused by level, texts by size class (separator_texts.h), and each keeps its own
// free lists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace lodgekv {

class DramArena {
 public:
  DramArena() = default;
  ~DramArena();
  DramArena(const DramArena&) = delete;
  DramArena& operator=(const DramArena&) = delete;

  // Zeroed, 64-byte aligned.
  void* Allocate(size_t bytes);

  // Takes over everything allocated from `other`, which is then empty. Several threads that fill
  // arenas of their own do not contend.
  void Take(DramArena& other);

  // Allocated bytes.
  uint64_t used_bytes() const;

 private:
  struct Block {
    char* begin;
    size_t bytes;
  };
  void AddBlock(size_t at_least);

  mutable std::mutex mutex_;
  std::vector<Block> blocks_;
  char* next_ = nullptr;
  size_t left_ = 0;
  uint64_t used_ = 0;
};

}  // namespace lodgekv
