// Where the descents of an InnerTree begin: at the shortcut for the key, which is renewed from the
// root if it is stale, or at the root. Only keys that are words have shortcuts.
//
// Thread safety: all calls from any thread, beside changes of the tree; within an OptimisticSection
// but for Draw.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "index/node/inner_node.h"
#include "index/node/optimistic_section.h"
#include "index/node/shortcuts.h"

namespace lodgekv {

// Ways to begin a descent: the node, with its version; null: the root.
struct AtRoot {
  std::nullptr_t operator()(uint64_t*) const { return nullptr; }
};

template <class C, class TreeNode>
class InnerShortcuts {
 public:
  using Key = typename C::Key;
  using Node = TreeNode;

  explicit InnerShortcuts(const std::atomic<Node*>& root) : root_(root) {}

  auto At(const Key& key) const {
    if constexpr (C::kRecords) {
      return AtRoot{};
    } else {
      return [this, word = C::WordOf(key, 0)](uint64_t* version) {
        return shortcuts_.Find(word, version, [&] { Renew(word); });
      };
    }
  }

  // The tree has so many nodes now.
  void Draw(uint64_t nodes);

 private:
  using Range = typename Shortcuts<Node>::Range;
  static constexpr unsigned kNone = kInnerCapacity + 1;

  [[gnu::noinline]] void Renew(uint64_t word) const;
  static unsigned RankOf(const Node* node, Range range);
  std::vector<uint64_t> UpperWords(size_t wanted) const;

  const std::atomic<Node*>& root_;
  Shortcuts<Node> shortcuts_;
};

// The child that covers all of the range, or kNone. May read a node that is changing.
template <class C, class TreeNode>
unsigned InnerShortcuts<C, TreeNode>::RankOf(const Node* node, Range range) {
  const unsigned count = std::min<unsigned>(node->count, kInnerCapacity);
  unsigned rank = 0;
  while (rank < count && node->words[rank] <= range.first) ++rank;
  return rank < count && node->words[rank] <= range.last ? kNone : rank;
}

template <class C, class TreeNode>
void InnerShortcuts<C, TreeNode>::Renew(uint64_t word) const {
  const auto place = shortcuts_.PlaceOf(word);
  const Node* node = root_.load(std::memory_order_acquire);
  uint64_t version = node->lock.ReadBegin();
  if (place.entry == nullptr || root_.load(std::memory_order_acquire) != node) return;
  while (node->level > Shortcuts<Node>::kLowest) {
    const unsigned rank = RankOf(node, place.range);
    if (rank == kNone) break;
    const auto* child = node->NodeAt(rank);
    if (child == nullptr) return;
    const uint64_t child_version = child->lock.ReadBegin();
    if (!node->lock.Validate(version)) return;
    node = child;
    version = child_version;
  }
  place.entry->Store(node, version);
}

// At least so many words that divide the keys, in order, from the upper levels; none, if there are
// fewer or if they change.
template <class C, class TreeNode>
std::vector<uint64_t> InnerShortcuts<C, TreeNode>::UpperWords(size_t wanted) const {
  const OptimisticSection section;
  std::vector<uint64_t> words;
  std::vector<const Node*> nodes{root_.load(std::memory_order_acquire)};
  while (words.size() < wanted && nodes.front()->level >= Shortcuts<Node>::kLowest) {
    words.clear();
    std::vector<const Node*> below;
    for (const Node* node : nodes) {
      const uint64_t version = node->lock.ReadBegin();
      const unsigned count = std::min<unsigned>(node->count, kInnerCapacity);
      words.insert(words.end(), node->words, node->words + count);
      for (unsigned i = 0; i <= count; ++i) {
        below.push_back(node->NodeAt(i));
      }
      if (!node->lock.Validate(version)) return {};
    }
    nodes.swap(below);
  }
  return words.size() < wanted ? std::vector<uint64_t>{} : words;
}

// Of the keys some few at both ends have no shortcut: they may lie far from the others.
template <class C, class TreeNode>
void InnerShortcuts<C, TreeNode>::Draw(uint64_t nodes) {
  if constexpr (!C::kRecords) {
    constexpr size_t kWords = 64;
    if (!shortcuts_.AreOutgrown(nodes)) return;
    const std::vector<uint64_t> words = UpperWords(kWords);
    if (words.empty()) return;
    const auto [first, last] = std::minmax(words[1], words[words.size() - 2]);
    shortcuts_.Draw(nodes, {first, last});
  }
}

}  // namespace lodgekv
