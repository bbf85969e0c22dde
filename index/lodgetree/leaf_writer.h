// Writes drained pairs to a leaf on the medium: what changes it, and the commit that makes it
// count. A leaf is begun, its pairs are sorted in, then it is staged; behind a fence its commit
// word is stored, behind another one it is published (drain_round.h). README, The drain.
//
// Invariants
//  1. Until the commit word is stored, nothing that counts has changed but values whose log entries
//     are durable.
//  2. A slot that a commit frees is written only behind that commit's fence.
//  3. The watermark is stored with the commit that completes the leaf, or behind it; it never
//     falls.
//
// Thread safety: for whoever holds the lock of the leaf's node.
#pragma once

#include <cstdint>
#include <span>

#include "index/lodgetree/tree_parts.h"

namespace lodgekv::lodgetree {

template <class C>
class LeafWriter {
 public:
  using Node = LastLevelNode<C>;
  enum class Pass { kFirst, kSecond };

  LeafWriter(TreeParts<C>& parts, Worker<C>& worker) : parts_(parts), worker_(worker) {}

  // `group`: the buffered pairs that go there.
  void Begin(const Node* node, unsigned leaf, uint32_t group, uint64_t watermark,
             LeafWork* work) const;
  // What a pair means for the leaf: a new slot, a new value, a cleared bit, or nothing. A value is
  // stored in place only where the pair's log entry is durable already: else a crash may leave the
  // value and not the entry. There the commit word takes a new slot for the old one.
  void SortPair(const Node* node, Pair pair, bool tombstone, bool in_place, LeafWork& work);
  // Writes and flushes what was sorted in, and the leaves that a split needs.
  void Stage(NodeTurn<C>& turn, LeafWork& work);

  // New pairs go to these slots.
  void WriteFresh(std::span<const Pair> fresh, LeafWork& work, uint32_t free_slots);
  void FlushLines(LeafWork& work);

  // Stores and flushes the commit words; the fence behind them is the caller's.
  void StoreCommits(std::span<LeafWork> works, Pass pass);
  // Of the leaves that had too few free slots: writes the rest, and fences its commits.
  void CommitSecond();

 private:
  void WriteUpdates(LeafWork& work);
  void StoreFingerprints(LeafWork& work);
  void StoreCommit(LeafWork& work, Pass pass);

  TreeParts<C>& parts_;
  Worker<C>& worker_;
};

}  // namespace lodgekv::lodgetree
