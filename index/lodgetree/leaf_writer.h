// Writes drained pairs to a leaf on the medium, and commits them. The steps: Begin, SortPair for
// each pair, Stage; after a fence its commit word is stored, and the leaf is published, unless it
// has a second commit: then after that one's fence (drain_round.h). README, The drain.
//
// Invariants
//  1. Until the commit word is stored, nothing valid has changed except values whose log entries
//     are durable.
//  2. A slot that a commit frees is written only after that commit's fence.
//  3. The watermark is stored with the commit that completes the leaf, in the same line; under
//     strict order when that commit is durable (commit_closer.h). It never decreases.
//
// Thread safety: the caller holds the lock of the leaf's node.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

#include "index/lodgetree/leaf_split.h"
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

  // Stores and flushes the commit words. They stay open (open_commits.h), or the caller fences.
  void StoreCommits(std::span<LeafWork> works, Pass pass);
  // For the leaves that had too few free slots: writes the rest, and fences its commits.
  void CommitSecond();
  // The leaf's commit is published: what of it is mirrored in the node changes.
  void PublishMirror(Node* node, const LeafWork& work) const {
    node->SetMirror(work.leaf, work.MirrorBits(), work.filled, work.fingerprints);
    node->SetRecords(work.leaf, work.filled | work.updated, work.record_words);
  }

 private:
  void WriteUpdates(LeafWork& work);
  void StoreFingerprints(LeafWork& work);
  void StoreCommit(LeafWork& work, Pass pass);

  TreeParts<C>& parts_;
  Worker<C>& worker_;
};

template <class C>
void LeafWriter<C>::Begin(const Node* node, unsigned leaf, uint32_t group, uint64_t watermark,
                          LeafWork* work) const {
  const LeafMirror& mirror = node->mirrors[leaf];
  work->leaf = leaf;
  work->media = parts_.access.LeafAt(node, leaf);
  work->group = group;
  work->old_bits = mirror.slots();
  work->use_n = mirror.use_n() != 0;
  work->cleared = work->moved = work->filled = work->updated = work->lines = 0;
  work->flip = work->second_commit = false;
  work->first_fresh = work->fresh_count = work->update_count = 0;
  work->first_new = work->new_count = 0;
  // Never decreases: recovery replays in order of numbers, node by node.
  work->watermark = std::max(watermark, media::WatermarkOf(work->media));
}

template <class C>
void LeafWriter<C>::SortPair(const Node* node, Pair pair, bool tombstone, bool in_place,
                             LeafWork& work) {
  const int slot = parts_.access.FindPairInLeaf(node, work.leaf, pair);
  const uint32_t bit = slot >= 0 ? uint32_t{1} << slot : 0;
  const uint64_t old_value = slot >= 0 ? work.media->slots[slot].value.LoadRelaxed() : pair.value;
  // (Keys of damaged records may be equal: a slot changes only once.)
  const bool replaces = old_value != pair.value && ((work.updated | work.cleared) & bit) == 0;
  if (C::kRecords && replaces) worker_.unlinked.push_back(old_value);
  if (tombstone) {
    work.cleared |= bit;
    if constexpr (C::kRecords) worker_.unlinked.push_back(pair.value);
  } else if (slot < 0 || (replaces && !in_place)) {
    work.cleared |= bit;
    worker_.round.fresh.push_back(pair);
    ++work.fresh_count;
  } else if (replaces) {
    work.updated |= bit;
    work.update_slots[work.update_count] = static_cast<uint8_t>(slot);
    work.update_values[work.update_count++] = pair.value;
    if (parts_.mirrors_records) work.record_words[slot] = parts_.RecordWordOf(pair);
  }
}

template <class C>
void LeafWriter<C>::Stage(NodeTurn<C>& turn, LeafWork& work) {
  const uint32_t all_slots = parts_.parameters.AllSlots();
  const auto kept = static_cast<unsigned>(std::popcount(work.old_bits & ~work.cleared));
  if (work.fresh_count > 0 && kept + work.fresh_count > parts_.parameters.t_split) {
    LeafSplitter<C>(parts_, worker_).Stage(turn, work);
  }
  if (work.update_count != 0) WriteUpdates(work);
  // A slot that this commit frees is not written before the commit is durable.
  const bool reuse = parts_.medium.Canary("lodgetree.second_commit.reuse_at_once");
  const uint32_t free_slots = all_slots & ~(reuse ? work.NewBits() : work.old_bits);
  work.second_commit = work.fresh_count > static_cast<unsigned>(std::popcount(free_slots));
  if (!work.second_commit) WriteFresh(worker_.round.FreshOf(work), work, free_slots);
  if (parts_.medium.Canary("lodgetree.flush.watermark_first")) {
    parts_.medium.Store(work.media->watermark, CheckedWord(work.watermark));
    work.lines |= 1;
  }
  worker_.round.staged |= work.lines != 0;
  FlushLines(work);
}

// Fills free slots so that few lines are touched.
template <class C>
void LeafWriter<C>::WriteFresh(std::span<const Pair> fresh, LeafWork& work, uint32_t free_slots) {
  for (size_t next = 0; next < fresh.size();) {
    const unsigned line = LineForPairs(free_slots, fresh.size() - next);
    uint32_t slots = free_slots & SlotsOfLine(line);
    free_slots &= ~slots;
    work.lines |= uint32_t{1} << line;
    for (; slots != 0 && next < fresh.size(); slots &= slots - 1) {
      const auto slot = static_cast<unsigned>(std::countr_zero(slots));
      const Pair pair = fresh[next++];
      media::Slot& at = work.media->slots[slot];
      parts_.medium.StoreTwo(at.key, pair.key, at.value, pair.value);
      work.fingerprints[slot] = FingerprintOf(parts_.codec.HashOf(pair));
      if (parts_.mirrors_records) work.record_words[slot] = parts_.RecordWordOf(pair);
      work.filled |= uint32_t{1} << slot;
    }
  }
  if (parts_.medium.strict_order()) {
    StoreFingerprints(work);
    work.lines |= 1;
  }
}

template <class C>
void LeafWriter<C>::StoreFingerprints(LeafWork& work) {
  for (uint32_t left = work.filled; left != 0;) {
    const unsigned word = static_cast<unsigned>(std::countr_zero(left)) / 8;
    uint64_t value = work.media->fingerprints[word].LoadRelaxed();
    do {
      const auto slot = static_cast<unsigned>(std::countr_zero(left));
      left &= left - 1;
      const unsigned shift = slot % 8 * 8;
      value &= ~(uint64_t{0xff} << shift);
      value |= uint64_t{work.fingerprints[slot]} << shift;
    } while ((left & uint32_t{0xff} << word * 8) != 0);
    parts_.medium.Store(work.media->fingerprints[word], value);
  }
}

template <class C>
void LeafWriter<C>::FlushLines(LeafWork& work) {
  parts_.medium.FlushLines(work.media, work.lines);
  work.lines = 0;
}

template <class C>
void LeafWriter<C>::StoreCommit(LeafWork& work, Pass pass) {
  const bool strict = parts_.medium.strict_order();
  if (!strict) StoreFingerprints(work);
  if (parts_.medium.Canary("lodgetree.flush.watermark_before_commit")) {
    parts_.medium.Store(work.media->watermark, CheckedWord(work.watermark));
  }
  if (work.flip && parts_.medium.Canary("lodgetree.split.two_words")) {
    const uint64_t with_old_use_n = (work.CommitWord() & kCheckedMask) ^ media::kUseN;
    parts_.medium.Store(work.media->commit, CheckedWord(with_old_use_n));
  }
  if (work.flip && parts_.medium.Canary("lodgetree.split.torn_commit")) {
    constexpr uint64_t kLowHalf = UINT16_MAX;
    const uint64_t old = work.media->commit.Load();
    parts_.medium.Store(work.media->commit, (old & ~kLowHalf) | (work.CommitWord() & kLowHalf));
  }
  parts_.medium.Store(work.media->commit, work.CommitWord());
  if (work.flip && parts_.medium.Canary("lodgetree.split.next_after_commit")) {
    parts_.medium.Store(work.media->next[work.use_n ? 0 : 1], work.next);
  }
  const bool whole = !work.second_commit || pass == Pass::kSecond ||
                     parts_.medium.Canary("lodgetree.second_commit.watermark");
  if (!strict && whole) parts_.medium.Store(work.media->watermark, CheckedWord(work.watermark));
  parts_.medium.FlushLine(work.media);
}

}  // namespace lodgekv::lodgetree
