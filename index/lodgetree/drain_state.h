// The state of drains that share their fences: one drain, or all drains of a group. A round has a
// turn for each node that takes part, and a work for each leaf that is drained.
//
// Invariants
//  1. The works of a turn are adjacent, by leaf ascending; those of all turns in the turns' order.
//  2. A leaf is in at most one work of a round.
//  3. In Round::fresh the pairs that a work still has to write are adjacent; in new_leaves those
//     that a leaf was split into are, the last one first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "index/lodgetree/last_level_node.h"
#include "index/lodgetree/layout.h"
#include "index/lodgetree/parameters.h"

namespace lodgekv::lodgetree {

// A leaf during its drain.
struct LeafWork {
  unsigned leaf;  // index in the node
  media::Leaf* media;
  uint32_t group;      // buffered pairs for it
  uint32_t old_bits;   // slots valid before
  uint32_t cleared;    // slots of deleted pairs
  uint32_t moved;      // slots whose pairs go to new leaves
  uint32_t filled;     // slots written for new pairs
  uint32_t updated;    // slots whose pairs get a new value word
  uint32_t lines;      // lines to flush before the commit
  bool use_n;          // before the drain
  bool flip;           // use_n changes: the leaf splits
  bool second_commit;  // its new pairs wait for slots that the first commit frees
  // In Round::fresh: the pairs that are new in this leaf.
  unsigned first_fresh, fresh_count;
  unsigned update_count;
  uint64_t watermark;
  uint8_t update_slots[kLeafSlots];  // existing pairs with a new value word
  uint64_t update_values[kLeafSlots];
  uint8_t fingerprints[kLeafSlots];   // of the slots in `filled`
  uint64_t record_words[kLeafSlots];  // of the slots in `filled` and `updated`, if mirrored
  // When flip: the leaves to its right, in Round::new_leaves, the last one first.
  unsigned first_new, new_count;
  uint64_t next;  // the next pointer to store

  uint32_t NewBits() const { return (old_bits & ~cleared & ~moved) | filled; }
  uint64_t CommitWord() const {
    return CheckedWord(NewBits() | (use_n != flip ? media::kUseN : 0));
  }
  // The mirror's content once the commit is published.
  uint32_t MirrorBits() const { return NewBits() | (use_n != flip ? LeafMirror::kUseN : 0); }
};

// A pair of a splitting leaf, or one that is drained to it.
struct SplitPair {
  Pair pair;
  int slot;  // in the old leaf; -1: new
};

// One node's part in a round.
template <class C>
struct NodeTurn {
  static constexpr size_t kNone = SIZE_MAX;
  LastLevelNode<C>* node = nullptr;
  uint32_t leaves = 0;   // that the turn drains
  uint32_t drained = 0;  // buffered pairs moved there
  bool removes = false;  // a delete is applied to its leaf
  bool splits = false;   // one of the leaves
  uint64_t watermark = 0;
  unsigned first_work = 0, work_count = 0;
  // In a group: the writes to this node, in Worker::todo, and the first operation of the node, in
  // order of numbers, that waits for a later round.
  size_t first_op = 0, op_count = 0;
  size_t waits = kNone;
  size_t new_leaves = 0;      // at most
  size_t further_leaves = 0;  // that the node then has room for
  bool second_commit = false;
  bool replays = false;  // by recovery

  bool of_group() const { return op_count != 0; }
  bool PublishesAtOnce() const { return leaves != 0 && !second_commit; }
};

template <class C>
struct Round {
  using NewLeaf = typename LastLevelNode<C>::NewLeaf;

  std::vector<NodeTurn<C>> turns;
  std::vector<LeafWork> works;  // the first `work_count`
  unsigned work_count = 0;
  std::vector<NewLeaf> new_leaves;
  std::vector<uint32_t> logs;  // of the drained pairs' entries
  std::vector<Pair> fresh;
  std::vector<SplitPair> split_pairs;  // of the leaf that is being split
  std::vector<Pair> right;             // pairs of the leaf being written
  size_t planned_ops = 0;              // of the turns so far
  size_t planned_leaves = 0;           // new ones, at most
  bool staged = false;                 // the commits have to wait for flushed lines

  void Clear() {
    turns.clear();
    work_count = 0;
    new_leaves.clear();
    logs.clear();
    fresh.clear();
    planned_ops = planned_leaves = 0;
    staged = false;
  }
  LeafWork& NextWork() {
    if (work_count == works.size()) works.resize(std::max<size_t>(kMaxTargets, 2 * work_count));
    return works[work_count++];
  }
  std::span<LeafWork> Works() { return {works.data(), work_count}; }
  std::span<const Pair> FreshOf(const LeafWork& work) const {
    return {fresh.data() + work.first_fresh, work.fresh_count};
  }
  std::span<LeafWork> WorksOf(const NodeTurn<C>& turn) {
    return {works.data() + turn.first_work, turn.work_count};
  }
};

}  // namespace lodgekv::lodgetree
