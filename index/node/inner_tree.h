// The volatile upper levels of a tree: map a key to the lower node that covers it.
//
// Invariants
//  1. children[i] covers keys k with separators[i-1] <= k < separators[i], which ascend strictly.
//  2. words[i] holds the 8 bytes of separators[i] that follow the node's prefix, big-endian, so
//     most comparisons stay inside the node's first four lines; equal words are decided by the
//     separators.
//  3. All separators of a node begin with the same `prefix` bytes. A node that is bounded on both
//     sides omits the common prefix of its bounds, so every key that reaches it has that prefix
//     too; a node on the right edge compares the prefix first, if it has one (check_prefix).
//  4. Locks are waited for upwards only (a lower node, then its parent), so there is no deadlock.
//     The code that shrinks the tree (inner_tree_shrink.h) only tries them, in any order.
//  5. A removed node is reused as a node of its level, and its lock's version continues: so a stale
//     pointer leads to a node of the same level, whose children are nodes of the level below. A
//     reader's view of such a node is invalid:
//       - a reader that took its version while it was in the tree, or has it from a shortcut,
//         finds another one, since removing it published it;
//       - a reader that took the version later came from a parent, or from root_, that had changed
//         before, and notices that afterwards: DescendBy, DescendToLevel and MoveToNeighbour take a
//         child's version and then validate the parent, or compare root_ again.
//     Nobody uses what a place (inner_place.h) has read before that.
//  6. Each slot that holds a separator owns it (separator_texts.h).
//  7. The versions of different nodes' locks are different (shortcuts.h).
//  8. An inner node except the root has two or more children, unless a lock was busy; after a
//     recovery some may have one.
//
// Thread safety: descents take no lock and may run concurrently with everything else.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "index/node/dram_arena.h"
#include "index/node/inner_access.h"
#include "index/node/inner_node.h"
#include "index/node/inner_place.h"
#include "index/node/inner_shortcuts.h"
#include "index/node/optimistic_section.h"
#include "index/node/prefetch.h"
#include "index/node/recovery_tasks.h"
#include "index/node/search_form.h"
#include "index/node/separator.h"
#include "index/node/version_lock.h"
#include "index/pmem/medium.h"

namespace lodgekv {

template <class C, class Below, class Access = OwnLock<Below>>
class InnerTree {
 public:
  using Key = typename C::Key;
  using Separator = typename C::Separator;
  using Node = InnerNode<C>;
  struct Child {
    Separator low;  // the tree takes ownership (SeparatorTexts)
    Below* node;
  };
  enum class Seek : uint8_t {
    kCovering,  // the node that covers the key
    kBefore,    // the node that covers the largest key below it
  };

  using Bounds = InnerBounds<C>;
  using Place = InnerPlace<C, Node>;

  InnerTree(DramArena& arena, SeparatorTexts& texts, Access access = {})
      : arena_(arena), texts_(texts), access_(access) {}

  // Builds the tree over `children`, which ascend; the first one's low counts as minus infinity.
  // Each level's nodes are made by `threads` threads. Not thread-safe.
  void Build(std::span<const Child> children, unsigned threads = 1);

  // The same for children found by several threads, each of which has adjacent ones.
  struct Entry {
    Separator low;
    void* node;
  };
  using Nodes = std::vector<Entry>;  // adjacent nodes of one level
  // The nodes above some children (at least one). Thread-safe.
  Nodes MakeParents(std::span<const Child> children) { return MakeNodes(1, children); }
  // Builds the tree over the results of MakeParents for all children. Each piece's first low is
  // that of its first child, and may be set after MakeParents.
  void BuildOver(std::vector<Nodes> pieces, unsigned threads);

  // The low bounds of the nodes of some level, except the first, in order; of the highest level
  // that has `wanted` such nodes, or of the lowest one. Not thread-safe.
  std::vector<Separator> Borders(size_t wanted) const;

  // The lower node for `key`, with the version of its lock at which it covered the key. `Form`:
  // search_form.h. Where keys are words of 8 bytes the descent begins below the root, if it can.
  template <class Form = SearchByPointer>
  Below* Descend(const Key& key, uint64_t* snapshot, Seek seek = Seek::kCovering) const;
  // The same for a caller that will write there. `lock`, unless null: the node's. `hint`, unless
  // null: the node's; the block that it names is being fetched.
  template <class Form = SearchByPointer>
  Below* DescendForWrite(const Key& key, uint64_t* snapshot, VersionLock** lock = nullptr,
                         BlockHint* hint = nullptr) const;
  // The same in two steps, for a caller that seeks several keys: Fetch has the lower node's lines
  // fetched and reads none of them, so that those of many nodes are on their way at once. Then
  // Arrive ends the descent. Null: something has changed meanwhile, and the caller descends again.
  struct Fetched {
    const Node* parent;
    uint64_t version;  // of the parent
    Below* node;
    BlockHint hint = {};
  };
  template <class Form = SearchByPointer>
  Fetched FetchForWrite(const Key& key) const;
  Below* Arrive(const Fetched& fetched, uint64_t* snapshot, VersionLock** lock = nullptr) const;
  // Descend for `count` keys, key_at(i), a level of all after another: what the next level reads is
  // on its way for all of them at once. Calls found(i, node, snapshot) for each, in order.
  template <class Form, class KeyAt, class Found>
  void DescendEach(size_t count, KeyAt key_at, Found found) const;
  // The last lower node.
  Below* DescendLast(uint64_t* snapshot) const;
  // The same, and how to continue from there. `key` null: the last lower node.
  Below* DescendToPlace(const Key* key, Seek seek, uint64_t* snapshot, Place* place) const;
  // Moves `place` to its left or right neighbour. Null, with `place` unchanged: there is none under
  // this parent, or the parent has changed.
  Below* MoveToNeighbour(bool left, Place* place, uint64_t* snapshot) const;

  // The lower node at `distance` from the place, to be prefetched only. Null: none is known.
  const Below* NeighbourAt(const Place& place, int distance) const {
    const InnerChild child = place.ChildAt(distance);
    return child.IsNull() ? nullptr : access_.BelowOf(child);
  }

  // Locks the parent of the node that covers `key` and ensures that it has room for at least one
  // separator. The caller holds the lock of the lower node.
  Node* LockParent(const Key& key) { return LockWithRoom(key, 1); }
  static unsigned FreeSlots(const Node* parent) { return kInnerCapacity - parent->count; }
  // Inserts `children` (at most FreeSlots) to the right of the child that covers `key`, and
  // unlocks.
  void InsertAndUnlock(Node* parent, const Key& key, std::span<const Child> children);

  // Which neighbour may take over the range of a removed node.
  enum class Heir : uint8_t {
    kLeft,    // its left neighbour under the same parent
    kEither,  // the right one if there is no left one: nodes do not store where they begin
  };
  // The result of an operation that only tries its locks.
  enum class Attempt : uint8_t {
    kDone,
    kCannot,  // nothing to do, or not possible
    kBusy,    // a lock was taken: may be retried
  };
  // Locks the parent of the node that covers `key`, if that node can be removed. kCannot: it is the
  // first child of its parent, and the left neighbour has to take over; or the only node of all.
  Attempt LockForRemoval(const Key& key, const Below* child, Heir heir, Node** parent);
  static void Unlock(Node* parent) { parent->lock.Unlock(); }
  // Removes the child that covers `key`, and unlocks. The caller then calls Shrink.
  void RemoveAndUnlock(Node* parent, const Key& key);
  // Joins inner nodes around `key` that have become sparse, from below to the root, which is
  // removed when it has one child. False: a lock was busy, and the caller should retry.
  bool Shrink(const Key& key);

  // Where descents begin.
  const InnerShortcuts<C, Node>& shortcuts() const { return shortcuts_; }

  uint64_t node_count() const { return node_count_.load(std::memory_order_relaxed); }

 private:
  static constexpr size_t kBuildFill = 24;     // children of a node: room for later splits
  static constexpr size_t kBuildPiece = 4096;  // entries from which a thread makes nodes at a time
  template <class Form = SearchByPointer>
  static unsigned Rank(const Node* node, const Key& key, Seek seek);
  static int ComparePrefix(const Node* node, const Key& key);
  // Descents begin at `start(version)`, or at the root if that is null.
  template <bool kForWrite, class Start, class Choose>
  Fetched FetchBy(Start start, Choose choose) const;
  template <bool kForWrite, class Start, class Choose>
  Below* DescendBy(Start start, Choose choose, uint64_t* snapshot, VersionLock** lock = nullptr,
                   BlockHint* hint = nullptr) const;
  // How much of a lowest node is fetched before it is looked at.
  enum class Fetch : uint8_t { kNothing, kChildren };
  template <Fetch kFetch, class Start, class Choose>
  const Node* DescendToLowest(Start start, Choose choose, uint64_t* version, bool* is_root,
                              unsigned lowest = 1) const;
  struct Way;
  template <class Form>
  void BeginWay(const Key& key, Way* way) const;
  Node* DescendToLevel(const Key& key, unsigned level, uint64_t* snapshot) const;
  Node* LockWithRoom(const Key& key, unsigned level);
  void SplitLocked(Node* node, const Key& key);
  Node* GrowRoot(Node* old_root);
  Node* NewNode(unsigned level);
  void FreeNode(Node* node);
  template <class Lower>
  Nodes MakeNodes(unsigned level, std::span<const Lower> below);
  template <class Lower>
  std::vector<Nodes> MakePieces(unsigned level, std::span<const Lower> below, unsigned threads);
  static void SetBorder(const Entry& left, const Entry& right);
  static void JoinPieces(std::span<const Nodes> pieces);
  void MoveUpperHalf(Node* node, Node* right, unsigned middle, Separator up);
  static void InsertChild(Node* node, unsigned position, Separator separator, InnerChild child);
  static void EraseChild(Node* node, unsigned position, unsigned rank);
  static void Rebase(Node* node);

  // Defined in inner_tree_shrink.h:
  struct Family;
  Attempt JoinSparse(const Key& key, unsigned level);
  Attempt LowerRoot(Node* root, uint64_t snapshot);
  Attempt JoinChild(Node* parent, unsigned rank);
  void Join(const Family& family);
  void Level(const Family& family);

  static constexpr unsigned kMostLevels = 32;  // each has ten times the nodes of the one above

  DramArena& arena_;
  SeparatorTexts& texts_;
  [[no_unique_address]] const Access access_;
  std::atomic<Node*> root_{nullptr};
  std::atomic<uint64_t> node_count_{0};
  std::atomic<uint64_t> made_{0};  // nodes, ever
  InnerShortcuts<C, Node> shortcuts_{root_};
  std::mutex free_mutex_;
  std::vector<Node*> free_nodes_[kMostLevels + 1];  // by level
};

// Locks the parent for a split, before its stores and fences. A locked instruction waits for those
// before it, which are waited for behind the thread's next search otherwise. Null, where a fence
// may wait for a disk: then the parent is locked after them, since other splits wait for it.
template <class Tree>
typename Tree::Node* LockParentBeforeStores(Tree& tree, const pmem::Medium& medium,
                                            const typename Tree::Key& key) {
  return medium.long_fences() ? nullptr : tree.LockParent(key);
}

// --- search ---

// -1, 0, 1: the key's first bytes against the node's prefix.
template <class C, class Below, class Access>
int InnerTree<C, Below, Access>::ComparePrefix(const Node* node, const Key& key) {
  if constexpr (C::kRecords) {
    const Separator first = node->separators.at[0];
    if (first == nullptr) return 0;
    const std::string_view prefix = first->view().substr(0, node->prefix);
    return key.text.substr(0, prefix.size()).compare(prefix);
  } else {
    return 0;
  }
}

// The index of the child to follow. May read a node that is changing: the caller validates.
template <class C, class Below, class Access>
template <class Form>
unsigned InnerTree<C, Below, Access>::Rank(const Node* node, const Key& key, Seek seek) {
  const unsigned count = node->count;  // never above kInnerCapacity, also while it changes
  if (C::kRecords && node->check_prefix) {
    const int order = ComparePrefix(node, key);
    if (order != 0) return order < 0 ? 0 : count;
  }
  // The header's two words come first: the search runs over the node's first four lines.
  const auto* words = reinterpret_cast<const uint64_t*>(node);
  const uint64_t word = C::WordOf(key, node->prefix);
  unsigned rank =
      static_cast<unsigned>(std::popcount(_bzhi_u64(Form::NotAbove(words, word) >> 2, count)));
  // Equal words tell nothing, unless they are all of a key.
  if (C::kRecords || seek == Seek::kBefore) {
    const bool before = seek == Seek::kBefore;
    while (rank > 0 && node->words[rank - 1] == word && node->IsAbove(rank - 1, key, before))
      --rank;
  }
  return rank;
}

// The node of level `lowest` on the way, or the root if that is lower, and its version. Null:
// something has changed meanwhile.
template <class C, class Below, class Access>
template <InnerTree<C, Below, Access>::Fetch kFetch, class Start, class Choose>
const typename InnerTree<C, Below, Access>::Node* InnerTree<C, Below, Access>::DescendToLowest(
    Start start, Choose choose, uint64_t* version, bool* is_root, unsigned lowest) const {
  const Node* node = start(version);
  *is_root = node == nullptr;
  if (node == nullptr) {
    node = root_.load(std::memory_order_acquire);
    *version = node->lock.ReadBegin();
    if (root_.load(std::memory_order_acquire) != node) return nullptr;
  }
  for (unsigned level = node->level; level > lowest; --level) {  // that of `node`: invariant 5
    const Node* child = node->NodeAt(choose(node, *version, *is_root));
    // Read from a changing node it may be null, or another node: both are detected.
    if (child == nullptr) return nullptr;
    // The levels above are so small that they are in the cache.
    if (kFetch == Fetch::kChildren && level == 2) child->PrefetchChildren();
    const uint64_t child_version = child->lock.ReadBegin();
    if (!node->lock.Validate(*version)) return nullptr;
    node = child;
    *version = child_version;
    *is_root = false;
  }
  return node;
}

// The lower node may not be the right one if its parent has changed: Arrive tells.
template <class C, class Below, class Access>
template <bool kForWrite, class Start, class Choose>
typename InnerTree<C, Below, Access>::Fetched InnerTree<C, Below, Access>::FetchBy(
    Start start, Choose choose) const {
  constexpr Fetch kFetch =
      kForWrite || Access::kFetchInnerNodes ? Fetch::kChildren : Fetch::kNothing;
  for (;;) {
    uint64_t version;
    bool is_root;
    const Node* node = DescendToLowest<kFetch>(start, choose, &version, &is_root);
    if (node == nullptr) [[unlikely]]
      continue;
    const InnerChild& place = node->children[choose(node, version, is_root)];
    const InnerChild child = place;  // that may change meanwhile
    if (child.IsNull()) [[unlikely]]
      continue;
    Below* below = access_.BelowOf(child);
    if constexpr (Access::kHinted) access_.PrefetchHinted(child.hint().block());
    if constexpr (kForWrite) {
      access_.PrefetchForWrite(below);
    } else {
      access_.PrefetchForRead(below);
    }
    return {node, version, below, Access::kHinted ? place.hint() : BlockHint()};
  }
}

template <class C, class Below, class Access>
Below* InnerTree<C, Below, Access>::Arrive(const Fetched& fetched, uint64_t* snapshot,
                                           VersionLock** lock) const {
  const OptimisticSection section;
  VersionLock& its_lock = access_.LockOf(fetched.node);
  *snapshot = its_lock.ReadBegin();
  if (lock != nullptr) *lock = &its_lock;
  return fetched.parent->lock.Validate(fetched.version) ? fetched.node : nullptr;
}

// One of several descents. First `node` is the lowest inner node, which is being fetched, and
// `above` its parent, or null; then, after GoOn, `fetched` is the end of the descent. Null:
// something has changed meanwhile.
template <class C, class Below, class Access>
struct InnerTree<C, Below, Access>::Way {
  const Node* above;
  const Node* node;
  uint64_t version;  // of `above`, or else of `node`
  Fetched fetched;

  template <class Form>
  void GoOn(const Key& key, const Access& access) {
    fetched.node = nullptr;
    if (node == nullptr) return;
    uint64_t its_version = version;
    if (above != nullptr) {
      its_version = node->lock.ReadBegin();
      if (!above->lock.Validate(version)) return;
    }
    const InnerChild child = node->children[Rank<Form>(node, key, Seek::kCovering)];
    if (child.IsNull()) return;
    fetched = {node, its_version, access.BelowOf(child)};
    if constexpr (Access::kHinted) access.PrefetchHinted(child.hint().block());
    access.PrefetchForRead(fetched.node);
  }
};

template <class C, class Below, class Access>
template <class Form>
void InnerTree<C, Below, Access>::BeginWay(const Key& key, Way* way) const {
  const auto choose = [&](const Node* node, uint64_t, bool) {
    return Rank<Form>(node, key, Seek::kCovering);
  };
  bool is_root;
  way->above = nullptr;
  way->node =
      DescendToLowest<Fetch::kNothing>(shortcuts_.At(key), choose, &way->version, &is_root, 2);
  if (way->node == nullptr || way->node->level == 1) return;
  way->above = way->node;
  way->node = way->above->NodeAt(choose(way->above, 0, false));
  if (way->node != nullptr) way->node->PrefetchForSearch();
}

template <class C, class Below, class Access>
template <class Form, class KeyAt, class Found>
void InnerTree<C, Below, Access>::DescendEach(size_t count, KeyAt key_at, Found found) const {
  constexpr size_t kAtOnce = 16;
  Way ways[kAtOnce];
  for (size_t begin = 0; begin < count; begin += kAtOnce) {
    const size_t end = std::min(count, begin + kAtOnce);
    {
      const OptimisticSection section;
      for (size_t i = begin; i < end; ++i) BeginWay<Form>(key_at(i), &ways[i - begin]);
      for (size_t i = begin; i < end; ++i) {
        ways[i - begin].template GoOn<Form>(key_at(i), access_);
      }
    }
    for (size_t i = begin; i < end; ++i) {
      const Fetched& fetched = ways[i - begin].fetched;
      uint64_t snapshot;
      Below* below = fetched.node == nullptr ? nullptr : Arrive(fetched, &snapshot);
      if (below == nullptr) [[unlikely]]
        below = Descend(key_at(i), &snapshot);
      found(i, below, snapshot);
    }
  }
}

template <class C, class Below, class Access>
template <bool kForWrite, class Start, class Choose>
Below* InnerTree<C, Below, Access>::DescendBy(Start start, Choose choose, uint64_t* snapshot,
                                              VersionLock** lock, BlockHint* hint) const {
  const OptimisticSection section;
  for (;;) {
    const Fetched fetched = FetchBy<kForWrite>(start, choose);
    Below* below = Arrive(fetched, snapshot, lock);
    if (hint != nullptr) *hint = fetched.hint;
    if (below != nullptr) [[likely]]
      return below;
  }
}

template <class C, class Below, class Access>
template <class Form>
typename InnerTree<C, Below, Access>::Fetched InnerTree<C, Below, Access>::FetchForWrite(
    const Key& key) const {
  const OptimisticSection section;
  return FetchBy<true>(shortcuts_.At(key), [&](const Node* node, uint64_t, bool) {
    return Rank<Form>(node, key, Seek::kCovering);
  });
}

template <class C, class Below, class Access>
template <class Form>
Below* InnerTree<C, Below, Access>::Descend(const Key& key, uint64_t* snapshot, Seek seek) const {
  const auto choose = [&](const Node* node, uint64_t, bool) { return Rank<Form>(node, key, seek); };
  // An entry's node covers the keys of its range, but perhaps not those before the first of them.
  if (seek == Seek::kBefore) return DescendBy<false>(AtRoot{}, choose, snapshot);
  return DescendBy<false>(shortcuts_.At(key), choose, snapshot);
}

template <class C, class Below, class Access>
template <class Form>
Below* InnerTree<C, Below, Access>::DescendForWrite(const Key& key, uint64_t* snapshot,
                                                    VersionLock** lock, BlockHint* hint) const {
  return DescendBy<true>(
      shortcuts_.At(key),
      [&](const Node* node, uint64_t, bool) { return Rank<Form>(node, key, Seek::kCovering); },
      snapshot, lock, hint);
}

template <class C, class Below, class Access>
Below* InnerTree<C, Below, Access>::DescendToPlace(const Key* key, Seek seek, uint64_t* snapshot,
                                                   Place* place) const {
  return DescendBy<false>(
      AtRoot{},
      [&](const Node* node, uint64_t version, bool is_root) {
        place->Enter(node, version, is_root);
        const unsigned count = std::min<unsigned>(node->count, kInnerCapacity);
        place->rank = key == nullptr ? count : Rank(node, *key, seek);
        place->SetBounds(count);
        return place->rank;
      },
      snapshot);
}

template <class C, class Below, class Access>
Below* InnerTree<C, Below, Access>::MoveToNeighbour(bool left, Place* place,
                                                    uint64_t* snapshot) const {
  const OptimisticSection section;
  const Node* parent = place->parent;
  const unsigned count = std::min<unsigned>(parent->count, kInnerCapacity);
  if (left ? place->rank == 0 : place->rank >= count) return nullptr;
  Place there = *place;
  there.rank += left ? -1u : 1u;
  there.SetBounds(count);
  const InnerChild child = parent->children[there.rank];
  // What may not be a node is not followed.
  if (!parent->lock.Validate(place->version)) return nullptr;
  Below* node = access_.BelowOf(child);
  *snapshot = access_.LockOf(node).ReadBegin();
  if (!parent->lock.Validate(place->version)) return nullptr;
  *place = there;
  return node;
}

template <class C, class Below, class Access>
Below* InnerTree<C, Below, Access>::DescendLast(uint64_t* snapshot) const {
  return DescendBy<false>(
      AtRoot{},
      [](const Node* node, uint64_t, bool) {
        return std::min<unsigned>(node->count, kInnerCapacity);
      },
      snapshot);
}

// Null: the tree has no such level. It has one above a node which the caller has locked and which
// is not the root: a thread that lowers the root locks the new one.
template <class C, class Below, class Access>
typename InnerTree<C, Below, Access>::Node* InnerTree<C, Below, Access>::DescendToLevel(
    const Key& key, unsigned level, uint64_t* snapshot) const {
  const OptimisticSection section;
  // An entry's node may be below that level.
  const auto start = [&](uint64_t* version) -> const Node* {
    const Node* node = shortcuts_.At(key)(version);
    return node != nullptr && node->level >= level ? node : nullptr;
  };
  const auto choose = [&](const Node* node, uint64_t, bool) {
    return Rank(node, key, Seek::kCovering);
  };
  for (;;) {
    bool is_root;
    const Node* node = DescendToLowest<Fetch::kNothing>(start, choose, snapshot, &is_root, level);
    if (node == nullptr) [[unlikely]]
      continue;
    return node->level == level ? const_cast<Node*>(node) : nullptr;
  }
}

// --- change ---

template <class C, class Below, class Access>
typename InnerTree<C, Below, Access>::Node* InnerTree<C, Below, Access>::NewNode(unsigned level) {
  node_count_.fetch_add(1, std::memory_order_relaxed);
  {
    const std::lock_guard lock(free_mutex_);
    if (!free_nodes_[level].empty()) {
      Node* node = free_nodes_[level].back();
      free_nodes_[level].pop_back();
      node->count = 0;
      node->bounded = node->check_prefix = false;
      node->prefix = 0;
      return node;  // the lock keeps its version
    }
  }
  auto* node = new (arena_.Allocate(sizeof(Node))) Node{};
  node->level = static_cast<uint8_t>(level);
  node->lock.StartAt(made_.fetch_add(1, std::memory_order_relaxed));
  return node;
}

// Nothing refers to the node any more, it was published since, and it is unlocked.
template <class C, class Below, class Access>
void InnerTree<C, Below, Access>::FreeNode(Node* node) {
  node_count_.fetch_sub(1, std::memory_order_relaxed);
  const std::lock_guard lock(free_mutex_);
  free_nodes_[node->level].push_back(node);
}

// Chooses a new prefix and computes the words from it.
template <class C, class Below, class Access>
void InnerTree<C, Below, Access>::Rebase(Node* node) {
  if constexpr (C::kRecords) {
    auto& s = node->separators;
    node->prefix = 0;
    if (node->bounded) {
      node->prefix = static_cast<uint32_t>(CommonPrefix(s.low->view(), s.high->view()));
    } else if (node->count > 1) {  // the whole of a single one would be the prefix
      node->prefix =
          static_cast<uint32_t>(CommonPrefix(s.at[0]->view(), s.at[node->count - 1]->view()));
    }
    node->check_prefix = !node->bounded && node->prefix != 0;
    for (unsigned i = 0; i < node->count; ++i) node->words[i] = C::WordOf(s.at[i], node->prefix);
  }
}

template <class C, class Below, class Access>
void InnerTree<C, Below, Access>::InsertChild(Node* node, unsigned position, Separator separator,
                                              InnerChild child) {
  const unsigned behind = node->count - position;
  std::memmove(node->words + position + 1, node->words + position, behind * sizeof(uint64_t));
  std::memmove(node->children + position + 2, node->children + position + 1,
               behind * sizeof(InnerChild));
  if constexpr (C::kRecords) {
    auto* at = node->separators.at;
    std::memmove(at + position + 1, at + position, behind * sizeof(Separator));
  }
  node->children[position + 1] = child;
  ++node->count;
  node->SetSeparator(position, separator);
  if (!node->bounded) Rebase(node);
}

template <class C, class Below, class Access>
void InnerTree<C, Below, Access>::InsertAndUnlock(Node* parent, const Key& key,
                                                  std::span<const Child> children) {
  parent->lock.BeginPublish();
  unsigned position = Rank(parent, key, Seek::kCovering);
  for (const auto& [low, node] : children)
    InsertChild(parent, position++, low, access_.ChildOf(node));
  parent->lock.EndPublish();
  parent->lock.Unlock();
}

// Removes the separator at `position`, and the child at `rank`, which is to its left or right.
template <class C, class Below, class Access>
void InnerTree<C, Below, Access>::EraseChild(Node* node, unsigned position, unsigned rank) {
  const unsigned behind = node->count - position - 1u;
  std::memmove(node->words + position, node->words + position + 1, behind * sizeof(uint64_t));
  std::memmove(node->children + rank, node->children + rank + 1,
               (node->count - rank) * sizeof(InnerChild));
  if constexpr (C::kRecords) {
    auto* at = node->separators.at;
    std::memmove(at + position, at + position + 1, behind * sizeof(Separator));
  }
  --node->count;
  if (!node->bounded) Rebase(node);
}

template <class C, class Below, class Access>
typename InnerTree<C, Below, Access>::Node* InnerTree<C, Below, Access>::LockWithRoom(
    const Key& key, unsigned level) {
  for (Backoff backoff;; backoff.Pause()) {
    uint64_t snapshot;
    Node* node = DescendToLevel(key, level, &snapshot);
    if (!node->lock.TryUpgrade(snapshot)) continue;
    if (node->count < kInnerCapacity) return node;
    SplitLocked(node, key);
    node->lock.Unlock();
    if (level > 1) shortcuts_.Draw(node_count());
  }
}

// A new root above the old one, locked; readers see it once it is published.
template <class C, class Below, class Access>
typename InnerTree<C, Below, Access>::Node* InnerTree<C, Below, Access>::GrowRoot(Node* old_root) {
  Node* root = NewNode(old_root->level + 1u);
  root->lock.InitLocked();
  root->children[0] = InnerChild(old_root);
  if constexpr (C::kRecords) root->separators.low = C::MinusInfinity();
  Rebase(root);
  return root;
}

template <class C, class Below, class Access>
void InnerTree<C, Below, Access>::MoveUpperHalf(Node* node, Node* right, unsigned middle,
                                                Separator up) {
  const unsigned moved = node->count - middle - 1;
  right->count = static_cast<uint16_t>(moved);
  std::memcpy(right->words, node->words + middle + 1, moved * sizeof(uint64_t));
  std::memcpy(right->children, node->children + middle + 1, (moved + 1) * sizeof(InnerChild));
  right->bounded = node->bounded;
  if constexpr (C::kRecords) {
    std::memcpy(right->separators.at, node->separators.at + middle + 1, moved * sizeof(Separator));
    C::Keep(up);
    right->separators.low = up;
    right->separators.high = node->separators.high;
    Rebase(right);
  }
}

// Splits a full node that the caller has locked. The parent is published first, then the node,
// while readers of the node wait.
template <class C, class Below, class Access>
void InnerTree<C, Below, Access>::SplitLocked(Node* node, const Key& key) {
  const bool is_root = node == root_.load(std::memory_order_acquire);
  Node* parent = is_root ? GrowRoot(node) : LockWithRoom(key, node->level + 1u);
  const unsigned middle = kInnerCapacity / 2;
  const Separator up = node->SeparatorAt(middle);
  Node* right = NewNode(node->level);
  MoveUpperHalf(node, right, middle, up);

  node->lock.BeginPublish();
  parent->lock.BeginPublish();
  const unsigned position = is_root ? 0 : Rank(parent, key, Seek::kCovering);
  InsertChild(parent, position, up, InnerChild(right));
  parent->lock.EndPublish();
  if (is_root) root_.store(parent, std::memory_order_release);
  node->count = static_cast<uint16_t>(middle);
  node->bounded = true;
  if constexpr (C::kRecords) {
    C::Keep(up);
    node->separators.high = up;
    Rebase(node);
  }
  node->lock.EndPublish();
  parent->lock.Unlock();
}

// --- build ---

// Nodes of `level` over adjacent nodes of the level below. JoinPieces sets the first one's lower
// bound and the last one's upper bound.
template <class C, class Below, class Access>
template <class Lower>
typename InnerTree<C, Below, Access>::Nodes InnerTree<C, Below, Access>::MakeNodes(
    unsigned level, std::span<const Lower> below) {
  const size_t count = PartsOf(below.size(), kBuildFill);
  auto* space = static_cast<Node*>(arena_.Allocate(count * sizeof(Node)));
  node_count_.fetch_add(count, std::memory_order_relaxed);
  const uint64_t made_before = made_.fetch_add(count, std::memory_order_relaxed);
  const auto child_of = [&](const Lower& lower) {
    if constexpr (std::is_same_v<Lower, Child>) {
      return access_.ChildOf(lower.node);
    } else {
      return InnerChild(lower.node);
    }
  };
  Nodes nodes;
  nodes.reserve(count);
  for (size_t n = 0; n < count; ++n) {
    const Part part = Part::Of(below.size(), count, n);
    Node* node = new (space + n) Node{};
    node->level = static_cast<uint8_t>(level);
    node->lock.StartAt(made_before + n);
    node->count = static_cast<uint16_t>(part.end - part.begin - 1);
    node->children[0] = child_of(below[part.begin]);
    for (size_t i = part.begin + 1; i < part.end; ++i) {
      node->SetSeparator(static_cast<unsigned>(i - part.begin - 1), below[i].low);
      node->children[i - part.begin] = child_of(below[i]);
    }
    nodes.push_back({below[part.begin].low, node});
    if (n > 0) SetBorder(nodes[n - 1], nodes[n]);
    if (n > 1) Rebase(static_cast<Node*>(nodes[n - 1].node));
  }
  return nodes;
}

// Between two adjacent nodes of a level.
template <class C, class Below, class Access>
void InnerTree<C, Below, Access>::SetBorder(const Entry& left, const Entry& right) {
  auto* node = static_cast<Node*>(left.node);
  node->bounded = true;
  if constexpr (C::kRecords) {
    node->separators.high = right.low;
    static_cast<Node*>(right.node)->separators.low = right.low;
    C::Keep(right.low);
    C::Keep(right.low);
  }
}

template <class C, class Below, class Access>
void InnerTree<C, Below, Access>::JoinPieces(std::span<const Nodes> pieces) {
  if constexpr (C::kRecords) {
    static_cast<Node*>(pieces[0].front().node)->separators.low = C::MinusInfinity();
  }
  for (size_t i = 1; i < pieces.size(); ++i) SetBorder(pieces[i - 1].back(), pieces[i].front());
  for (const Nodes& piece : pieces) {
    Rebase(static_cast<Node*>(piece.front().node));
    Rebase(static_cast<Node*>(piece.back().node));
  }
}

template <class C, class Below, class Access>
void InnerTree<C, Below, Access>::BuildOver(std::vector<Nodes> pieces, unsigned threads) {
  for (unsigned level = 1;; ++level) {
    JoinPieces(pieces);
    Nodes all;
    for (const Nodes& piece : pieces) all.insert(all.end(), piece.begin(), piece.end());
    if (all.size() == 1) {
      root_.store(static_cast<Node*>(all[0].node), std::memory_order_release);
      shortcuts_.Draw(node_count());
      return;
    }
    pieces = MakePieces<Entry>(level + 1, all, threads);
  }
}

template <class C, class Below, class Access>
template <class Lower>
std::vector<typename InnerTree<C, Below, Access>::Nodes> InnerTree<C, Below, Access>::MakePieces(
    unsigned level, std::span<const Lower> below, unsigned threads) {
  std::vector<Nodes> pieces(PartsOf(below.size(), kBuildPiece));
  (void)RunTasks(pieces.size(), threads, [&](size_t i) {
    const Part part = Part::Of(below.size(), pieces.size(), i);
    pieces[i] = MakeNodes(level, below.subspan(part.begin, part.end - part.begin));
    return absl::OkStatus();
  });
  return pieces;
}

template <class C, class Below, class Access>
std::vector<typename C::Separator> InnerTree<C, Below, Access>::Borders(size_t wanted) const {
  std::vector<Separator> borders;
  for (Nodes nodes = {{C::MinusInfinity(), root_.load(std::memory_order_acquire)}};;) {
    Nodes below;
    for (const Entry& entry : nodes) {
      const auto* node = static_cast<const Node*>(entry.node);
      below.push_back({entry.low, node->NodeAt(0)});
      for (unsigned i = 0; i < node->count; ++i) {
        below.push_back({node->SeparatorAt(i), node->NodeAt(i + 1)});
      }
    }
    const bool lowest = static_cast<const Node*>(nodes[0].node)->level == 1;
    if (!lowest && below.size() < wanted) {
      nodes.swap(below);
      continue;
    }
    for (size_t i = 1; i < below.size(); ++i) borders.push_back(below[i].low);
    return borders;
  }
}

template <class C, class Below, class Access>
void InnerTree<C, Below, Access>::Build(std::span<const Child> children, unsigned threads) {
  BuildOver(MakePieces(1, children, threads), threads);
}

}  // namespace lodgekv
