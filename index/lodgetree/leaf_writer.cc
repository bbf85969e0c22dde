#include "index/lodgetree/leaf_writer.h"

#include <algorithm>
#include <bit>

#include "index/lodgetree/leaf_split.h"
#include "index/pmem/crash_point.h"

namespace lodgekv::lodgetree {

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
  }
}

template <class C>
void LeafWriter<C>::Stage(NodeTurn<C>& turn, LeafWork& work) {
  const uint32_t all_slots = parts_.parameters.AllSlots();
  const auto kept = static_cast<unsigned>(std::popcount(work.old_bits & ~work.cleared));
  if (work.fresh_count > 0 && kept + work.fresh_count > parts_.parameters.t_split) {
    LeafSplitter<C>(parts_, worker_).Stage(turn, work);
  }
  WriteUpdates(work);
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

template <class C>
void LeafWriter<C>::WriteUpdates(LeafWork& work) {
  for (unsigned i = 0; i < work.update_count; ++i) {
    const unsigned slot = work.update_slots[i];
    if ((work.moved >> slot & 1) != 0) continue;  // written in the right leaf
    parts_.medium.Store(work.media->slots[slot].value, work.update_values[i]);
    work.lines |= uint32_t{1} << LineOfSlot(slot);
  }
}

// Fills free slots so that few lines are touched: a line that can take all that remains, otherwise
// the emptiest.
template <class C>
void LeafWriter<C>::WriteFresh(std::span<const Pair> fresh, LeafWork& work, uint32_t free_slots) {
  for (size_t next = 0; next < fresh.size();) {
    const size_t need = fresh.size() - next;
    unsigned best_line = 0;
    unsigned best_score = 0;
    for (unsigned line = LineOfSlot(0); line < kLeafLines; ++line) {
      const auto room = static_cast<unsigned>(std::popcount(free_slots & SlotsOfLine(line)));
      const unsigned score = room >= need ? 2 * kLeafSlots - room : room;
      if (room > 0 && score > best_score) {
        best_score = score;
        best_line = line;
      }
    }
    uint32_t slots = free_slots & SlotsOfLine(best_line);
    free_slots &= ~slots;
    work.lines |= uint32_t{1} << best_line;
    for (; slots != 0 && next < fresh.size(); slots &= slots - 1) {
      const auto slot = static_cast<unsigned>(std::countr_zero(slots));
      const Pair pair = fresh[next++];
      media::Slot& at = work.media->slots[slot];
      parts_.medium.StoreTwo(at.key, pair.key, at.value, pair.value);
      work.fingerprints[slot] = FingerprintOf(parts_.codec.HashOf(pair));
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
  for (unsigned word = 0; word < std::size(work.media->fingerprints); ++word) {
    uint32_t slots = work.filled >> (8 * word) & 0xff;
    if (slots == 0) continue;
    uint64_t value = work.media->fingerprints[word].LoadRelaxed();
    for (; slots != 0; slots &= slots - 1) {
      const auto byte = static_cast<unsigned>(std::countr_zero(slots));
      value &= ~(uint64_t{0xff} << (8 * byte));
      value |= uint64_t{work.fingerprints[8 * word + byte]} << (8 * byte);
    }
    parts_.medium.Store(work.media->fingerprints[word], value);
  }
}

template <class C>
void LeafWriter<C>::FlushLines(LeafWork& work) {
  for (uint32_t left = work.lines; left != 0; left &= left - 1) {
    const char* leaf = reinterpret_cast<const char*>(work.media);
    parts_.medium.FlushLine(leaf + std::countr_zero(left) * pmem::kLineBytes);
  }
  work.lines = 0;
}

// Everything that changes is in the leaf's first line: fingerprints, then the commit word, then W.
// If a line may tear, a fence is needed between the last two.
template <class C>
void LeafWriter<C>::StoreCommits(std::span<LeafWork> works, Pass pass) {
  const bool second = pass == Pass::kSecond;
  for (LeafWork& work : works) {
    if (!second || work.second_commit) StoreCommit(work, pass);
  }
  if (!parts_.medium.strict_order()) return;
  parts_.medium.Fence();
  LODGEKV_CRASH_POINT(parts_.medium, "lodgetree.flush.3");
  for (LeafWork& work : works) {
    if (work.second_commit != second) continue;
    parts_.medium.Store(work.media->watermark, CheckedWord(work.watermark));
    parts_.medium.FlushLine(work.media);
  }
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

template <class C>
void LeafWriter<C>::CommitSecond() {
  Round<C>& round = worker_.round;
  const uint32_t all_slots = parts_.parameters.AllSlots();
  for (LeafWork& work : round.Works()) {
    if (!work.second_commit) continue;
    WriteFresh(round.FreshOf(work), work, all_slots & ~work.NewBits());
    FlushLines(work);
  }
  LODGEKV_CRASH_POINT(parts_.medium, "lodgetree.flush.5");
  parts_.medium.Fence();
  LODGEKV_CRASH_POINT(parts_.medium, "lodgetree.flush.6");
  StoreCommits(round.Works(), Pass::kSecond);
  parts_.medium.Fence();
}

template class LeafWriter<Fixed64Codec>;
template class LeafWriter<BytesCodec>;

}  // namespace lodgekv::lodgetree
