// Writes drained pairs to a leaf on the medium, and commits them. The steps: Begin, SortPair for
// each pair, Stage; after a fence its commit word is stored, after another one it is published
// (drain_round.h). README, The drain.
//
// Invariants
//  1. Until the commit word is stored, nothing valid has changed except values whose log entries
//     are durable.
//  2. A slot that a commit frees is written only after that commit's fence.
//  3. The watermark is stored with or after the commit that completes the leaf; it never decreases.
//
// Thread safety: the caller holds the lock of the leaf's node.
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

  // `group`: the buffered pairs for the leaf.
  void Begin(const Node* node, unsigned leaf, uint32_t group, uint64_t watermark,
             LeafWork* work) const;
  // Determines a pair's effect on the leaf: a new slot, a new value, a cleared bit, or nothing. A
  // value is stored in place only if the pair's log entry is already durable: otherwise a crash may
  // leave the value without the entry. Then the commit word replaces the old slot by a new one.
  void SortPair(const Node* node, Pair pair, bool tombstone, bool in_place, LeafWork& work);
  // Writes and flushes the sorted pairs, and the leaves that a split needs.
  void Stage(NodeTurn<C>& turn, LeafWork& work);

  // New pairs go to these slots.
  void WriteFresh(std::span<const Pair> fresh, LeafWork& work, uint32_t free_slots);
  void FlushLines(LeafWork& work);

  // Stores and flushes the commit words; the caller fences.
  void StoreCommits(std::span<LeafWork> works, Pass pass);
  // For the leaves that had too few free slots: writes the rest, and fences its commits.
  void CommitSecond();

 private:
  void WriteUpdates(LeafWork& work);
  void StoreFingerprints(LeafWork& work);
  void StoreCommit(LeafWork& work, Pass pass);

  TreeParts<C>& parts_;
  Worker<C>& worker_;
};

}  // namespace lodgekv::lodgetree
