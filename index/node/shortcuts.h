// Where descents of an InnerTree may begin, instead of at the root: for each of some ranges of
// words, all of equal length, the node that covers the whole range, of level kLowest or, if none of
// that level does, a higher one.
//
// An entry is the node and the version of its lock at which it covered its range. A node that loses
// a part of what it covers is published, so its version tells whether the entry is still true, and
// nobody has to keep the entries true: who finds one stale descends from the root, and renews it.
// Versions of different nodes are different (VersionLock::StartAt), so an entry of which one half
// is another node's is a stale one: both are stored and loaded without a lock.
//
// Keys outside of all ranges begin at the root, and so do all while the tree is low. Where most
// keys share a range, its node is the root or near it: then an entry brings nothing, and costs a
// load.
//
// Thread safety: all calls from any thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "index/node/word_ranges.h"

namespace lodgekv {

template <class Node>
class Shortcuts {
 public:
  // Below it there are so many nodes that their entries would be renewed, and out of the cache, all
  // the time (docs/decisions/0050-descents-begin-below-the-root.md).
  static constexpr unsigned kLowest = 2;
  static constexpr uint64_t kFewestNodes = 64;  // of all levels, that are worth it

  using Range = WordRanges::Range;
  class Entry;
  struct Place {
    Entry* entry;  // null: none
    Range range;
  };

  // The node that covers `word`, and its version; null: there is none, or its entry is stale, and
  // then `renew` was called.
  template <class Renew>
  const Node* Find(uint64_t word, uint64_t* version, Renew renew) const {
    const Table* table = table_.load(std::memory_order_acquire);
    const uint64_t at = table->ranges.IndexOf(word);
    if (at >= table->ranges.count()) return nullptr;
    const Node* node = table->entries[at].Load(version);
    if (node != nullptr && node->lock.Validate(*version)) [[likely]]
      return node;
    renew();
    return nullptr;
  }

  // To renew an entry: its range, and then what covered all of it at that version.
  Place PlaceOf(uint64_t word) const {
    const Table* table = table_.load(std::memory_order_acquire);
    const uint64_t at = table->ranges.IndexOf(word);
    if (at >= table->ranges.count()) return {};
    return {&table->entries[at], table->ranges.At(at)};
  }
  class Entry {
   public:
    void Store(const Node* node, uint64_t version) {
      version_.store(version, std::memory_order_relaxed);
      node_.store(node, std::memory_order_release);
    }
    const Node* Load(uint64_t* version) const {
      *version = version_.load(std::memory_order_relaxed);
      return node_.load(std::memory_order_acquire);
    }

   private:
    std::atomic<uint64_t> version_{0};
    std::atomic<const Node*> node_{nullptr};
  };

  // Whether the tree has grown so much since the ranges were drawn that they should be drawn anew.
  bool AreOutgrown(uint64_t nodes) const {
    return nodes >= kFewestNodes && nodes / 2 >= drawn_for_.load(std::memory_order_relaxed);
  }
  // For a tree of so many nodes, most of whose keys are within `words`.
  void Draw(uint64_t nodes, Range words) {
    const std::lock_guard lock(mutex_);
    if (!AreOutgrown(nodes)) return;
    auto table = std::make_unique<Table>(nodes, words);
    table_.store(table.get(), std::memory_order_release);
    drawn_for_.store(nodes, std::memory_order_relaxed);
    tables_.push_back(std::move(table));
  }

 private:
  struct Table {
    Table() = default;
    // Some eight for each node of the lowest level that is stored.
    Table(uint64_t nodes, Range words)
        : ranges(words, std::clamp(std::bit_ceil(nodes / 4), kFewestEntries, kMostEntries)),
          entries(std::make_unique<Entry[]>(ranges.count())) {}

    WordRanges ranges;
    std::unique_ptr<Entry[]> entries;
  };
  static constexpr uint64_t kFewestEntries = 64;
  static constexpr uint64_t kMostEntries = 16'384;  // 256 KiB: a part of the second cache

  Table none_;
  std::atomic<const Table*> table_{&none_};
  std::atomic<uint64_t> drawn_for_{0};
  std::mutex mutex_;
  // Somebody may still be reading an older one; all of them together are at most twice the last.
  std::vector<std::unique_ptr<Table>> tables_;
};

}  // namespace lodgekv
