// A scan over the leaves of a tree, forwards or backwards: the part that all engines share. The
// engine's cursor finds the leaves.
//
// Each leaf is copied under one version of its node, sorted, and cut to the range. Pairs with
// records are copied to a page inside an epoch; each leaf's successor is prefetched before its
// records are copied, so that memory is read while the processor copies. The visitor is called
// without epoch and locks.
//
// A Cursor has
//   Leaf                             a ScannedLeaf, with the engine's additions to its pairs;
//                                    pairs(): their number, with the additions;
//                                    ForEachValue(f): calls f(value word) for each of these;
//                                    sorted, if it has it: the pairs are in the order of their keys
//   has_place(), Forget()            whether the next leaf is known
//   Seek(near, reverse, wanted)      finds the leaf of *near, in reverse of the largest key below
//                                    it; null: the last leaf. `wanted` items are still needed
//   Copy(reverse, wanted, leaf)      false: the place has changed since it was found
//   Advance(reverse, leaf)           moves to the next leaf, or forgets the place
//   MergeInto(leaf, run)             merges data besides the leaf's pairs into the sorted run
//   damaged()                        if it may find the way to a leaf damaged: whether Seek did
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "index/engine.h"
#include "index/node/codec.h"
#include "index/node/epoch.h"
#include "index/node/prefetch.h"
#include "index/node/record.h"
#include "index/node/scan_page.h"
#include "index/node/scan_run.h"
#include "index/node/scan_steps.h"
#include "index/node/search_form.h"
#include "index/node/separator.h"
#include "index/node/stored_values.h"
#include "index/pmem/pool.h"

namespace lodgekv {

// A leaf as of one moment.
template <class C, unsigned kPairs>
struct ScannedLeaf {
  static_assert(kPairs <= ScanRun::kMost);
  static constexpr unsigned kRoom = kPairs < 32 ? 32 : kPairs;  // the SIMD search reads 32

  alignas(64) uint64_t words[kRoom];  // of the pairs
  uint64_t values[kRoom];
  unsigned count;
  uint32_t prefix;  // bytes that its keys certainly share
  bool bounded;     // `high` is set: it is not the rightmost leaf
  typename C::Separator low;
  typename C::Separator high;

  // Set by the scan.
  bool last;  // of the range
  bool trim;  // found by `near`: may have pairs before it
  typename C::Key near;

  Pair PairAt(unsigned i) const { return {words[i], values[i]}; }
};

template <class C, class Cursor>
class LeafScan {
 public:
  LeafScan(const pmem::Pool& pool, const C& codec, const StoredValues<C>& values, Cursor cursor,
           const ScanOptions& options)
      : pool_(pool),
        codec_(codec),
        values_(values),
        options_(options),
        cursor_(std::move(cursor)),
        left_(options.limit == 0 ? UINT64_MAX : options.limit) {}

  Outcome Run(ScanVisitor visitor) {
    if (!SetBounds()) return Outcome::kOk;
    if constexpr (C::kRecords) {
      return VisitRecords(visitor);
    } else {
      return VisitWords(visitor);
    }
  }

 private:
  using Key = typename C::Key;
  using Leaf = typename Cursor::Leaf;

  // Maximum size copied between two calls of the visitor (one item may be larger), and read in one
  // epoch: expired values are not copied.
  static constexpr size_t kPageBytes = size_t{1} << 20;
  static constexpr unsigned kPagePairs = 1u << 16;
  // Maximum size prefetched of a record; the rest is read sequentially.
  static constexpr size_t kFetchedBytes = 256;

  bool SetBounds();
  void Collect(uint64_t wanted, Leaf* leaf);
  void Seek(uint64_t wanted);
  bool IsLast(const Leaf& leaf) const;
  void Pass(Leaf* leaf);
  void PrefetchRecords(const Leaf& leaf) const requires C::kRecords;

  void Merge(const Leaf& leaf);
  static bool IsSorted(const Leaf& leaf) {
    if constexpr (requires { leaf.sorted; }) return leaf.sorted;
    return false;
  }
  void CopyPairs(const Leaf& leaf) {
    for (unsigned i = 0; i < leaf.count; ++i) run_.begin()[i] = leaf.PairAt(i);
  }
  void SortPairs(const Leaf& leaf);
  bool SortByWords(const Leaf& leaf, const uint64_t* words);
  template <class Form, unsigned kWords>
  static bool PlaceByRanks(const Leaf& leaf, const uint64_t* words, Pair* sorted);
  void Trim(const Leaf& leaf);
  void CutOff(Pair* first, Pair* last);
  bool IsBelow(Pair pair, const Key& key) const;

  Outcome VisitWords(ScanVisitor visitor);
  bool SeekMetDamage(Leaf* leaf);
  Outcome VisitRecords(ScanVisitor visitor) requires C::kRecords;
  Outcome FillPage(ScanPage* page) requires C::kRecords;
  Outcome CopyRun(ScanPage* page, bool* full) requires C::kRecords;
  Outcome CopyItem(Pair pair, ScanPage* page) const requires C::kRecords;
  void ResumeBehind(Pair pair) requires C::kRecords;

  // The next records probably are as large as this thread's last scanned one.
  static inline thread_local size_t usual_record_bytes_ = 48;

  const pmem::Pool& pool_;
  const C& codec_;
  const StoredValues<C>& values_;
  const ScanOptions& options_;
  Cursor cursor_;
  uint64_t left_;
  bool done_ = false;
  // The remaining range. Forward: near_ <= key < far_. In reverse: far_ <= key < near_.
  Key near_{};
  Key far_{};
  bool has_near_ = true;  // false: from the end of all keys
  bool has_far_ = true;
  std::string resume_text_;         // text of near_, after a full page
  typename C::Separator passed_{};  // instead of near_, after a whole leaf
  bool has_passed_ = false;
  bool sought_ = false;
  // The pairs of one leaf that remain to be visited, in the scan's order.
  ScanRun run_;
  bool damaged_ = false;  // a damaged record was found
  unsigned page_pairs_ = 0;
};

namespace internal {

// The smallest 8-byte key that is not below `bound`; false: there is none.
inline bool FixedBound(std::string_view bound, uint64_t* word) {
  *word = KeyWord(bound, 0);
  return bound.size() <= 8 || ++*word != 0;
}

}  // namespace internal

// False: the range is empty.
template <class C, class Cursor>
bool LeafScan<C, Cursor>::SetBounds() {
  Key low{};
  Key high{};
  bool bounded = options_.end.has_value();
  if constexpr (C::kRecords) {
    low = C::MakeKey(options_.start);
    if (bounded) high = C::MakeKey(*options_.end);
    if (bounded && low.text >= high.text) return false;
  } else {
    if (!internal::FixedBound(options_.start, &low.word)) return false;
    if (bounded) bounded = internal::FixedBound(*options_.end, &high.word);
    if (bounded && low.word >= high.word) return false;
  }
  near_ = options_.reverse ? high : low;
  far_ = options_.reverse ? low : high;
  has_near_ = !options_.reverse || bounded;
  has_far_ = options_.reverse || bounded;
  return true;
}

// --- from leaf to leaf ---

// Copies the next leaf; `wanted` items are still needed. A leaf that changed meanwhile is looked
// up again by its bound, so no progress is lost.
template <class C, class Cursor>
void LeafScan<C, Cursor>::Collect(uint64_t wanted, Leaf* leaf) {
  for (;;) {
    if (!cursor_.has_place()) Seek(wanted);
    if constexpr (requires { cursor_.damaged(); }) {
      if (SeekMetDamage(leaf)) return;
    }
    if (cursor_.Copy(options_.reverse, wanted, leaf)) break;
    cursor_.Forget();
  }
  ++scanned_leaves;
  leaf->last = IsLast(*leaf);
  Pass(leaf);
  if constexpr (C::kRecords) PrefetchRecords(*leaf);
}

// True: the scan ends with an empty leaf.
template <class C, class Cursor>
bool LeafScan<C, Cursor>::SeekMetDamage(Leaf* leaf) {
  if constexpr (requires { cursor_.damaged(); }) damaged_ |= cursor_.damaged();
  if (!damaged_) return false;
  leaf->count = 0;
  leaf->prefix = 0;
  leaf->bounded = false;
  leaf->last = true;
  leaf->trim = false;
  return true;
}

template <class C, class Cursor>
void LeafScan<C, Cursor>::Seek(uint64_t wanted) {
  if (has_passed_) {
    near_ = C::KeyOf(passed_);
    has_near_ = true;
    has_passed_ = false;
  }
  cursor_.Seek(has_near_ ? &near_ : nullptr, options_.reverse, wanted);
  sought_ = true;
}

template <class C, class Cursor>
bool LeafScan<C, Cursor>::IsLast(const Leaf& leaf) const {
  if (options_.reverse) return C::CompareToKey(leaf.low, far_) <= 0;
  return !leaf.bounded || (has_far_ && C::CompareToKey(leaf.high, far_) >= 0);
}

// The leaf was copied: move to the next.
template <class C, class Cursor>
void LeafScan<C, Cursor>::Pass(Leaf* leaf) {
  leaf->trim = sought_ && has_near_;
  leaf->near = near_;
  sought_ = false;
  passed_ = options_.reverse ? leaf->low : leaf->high;
  has_passed_ = !leaf->last;
  cursor_.Advance(options_.reverse, *leaf);
}

template <class C, class Cursor>
void LeafScan<C, Cursor>::PrefetchRecords(const Leaf& leaf) const requires C::kRecords {
  const size_t bytes = usual_record_bytes_;
  leaf.ForEachValue([&](uint64_t value) {
    if (!C::IsRecord(value)) return;
    const pmem::Offset record = C::RecordOf(value);
    const char* first = pool_.template At<char>(record - record % pmem::kLineBytes);
    const char* end = pool_.template At<char>(record + bytes);
    for (const char* line = first; line < end; line += pmem::kLineBytes) Prefetch(line);
  });
}

// --- the pairs of a leaf ---

// Sets run_.
template <class C, class Cursor>
void LeafScan<C, Cursor>::Merge(const Leaf& leaf) {
  SortPairs(leaf);
  cursor_.MergeInto(leaf, &run_);
  Trim(leaf);
  if (options_.reverse) std::reverse(run_.begin(), run_.end());
}

// Sorts by the keys' first words, without reading records; equal ones by the words after the prefix
// common to all keys of the node, then of the leaf; if still equal, by whole keys.
template <class C, class Cursor>
void LeafScan<C, Cursor>::SortPairs(const Leaf& leaf) {
  run_.Reset(leaf.count);
  if (IsSorted(leaf)) return CopyPairs(leaf);
  const bool may_differ = !C::kRecords || leaf.prefix < sizeof(uint64_t);
  if (may_differ && SortByWords(leaf, leaf.words)) return;
  if constexpr (C::kRecords) {
    const auto sort_behind = [&](size_t shared) {
      alignas(64) uint64_t words[Leaf::kRoom];
      char scratch[8];
      for (unsigned i = 0; i < leaf.count; ++i) {
        words[i] = KeyWord(codec_.KeyText(leaf.PairAt(i), scratch), shared);
      }
      return SortByWords(leaf, words);
    };
    if (leaf.prefix != 0 && sort_behind(leaf.prefix)) return;
    if (leaf.bounded && sort_behind(CommonPrefix(leaf.low->view(), leaf.high->view()))) return;
  }
  CopyPairs(leaf);
  std::sort(run_.begin(), run_.end(), [&](Pair x, Pair y) { return codec_.Less(x, y); });
}

template <class C, class Cursor>
template <class Form, unsigned kWords>
bool LeafScan<C, Cursor>::PlaceByRanks(const Leaf& leaf, const uint64_t* words, Pair* sorted) {
  const uint32_t valid = (uint32_t{1} << leaf.count) - 1;
  uint32_t taken = 0;
  for (unsigned i = 0; i < leaf.count; ++i) {
    const uint32_t not_above = Form::template NotAbove<kWords>(words, words[i]) & valid;
    const auto place = static_cast<unsigned>(std::popcount(not_above)) - 1;
    sorted[place] = leaf.PairAt(i);
    taken |= uint32_t{1} << place;
  }
  return taken == valid;
}

// A pair's rank is the number of words below its own: SIMD compares, without the branches of a
// sort. False: words are equal, or there are too many.
template <class C, class Cursor>
bool LeafScan<C, Cursor>::SortByWords(const Leaf& leaf, const uint64_t* words) {
  if (leaf.count > 31) return false;
  return RunBySearchForm(
      [](auto form, const Leaf* of, const uint64_t* its_words, Pair* sorted) {
        using Form = decltype(form);
        return of->count <= 16 ? PlaceByRanks<Form, 16>(*of, its_words, sorted)
                               : PlaceByRanks<Form, 32>(*of, its_words, sorted);
      },
      &leaf, words, run_.begin());
}

// Removes what is not in the range. The run ascends.
template <class C, class Cursor>
void LeafScan<C, Cursor>::Trim(const Leaf& leaf) {
  const Key* low = leaf.trim ? &leaf.near : nullptr;
  const Key* high = leaf.last && has_far_ ? &far_ : nullptr;
  if (options_.reverse) std::swap(low, high);
  const auto first_from = [&](const Key& key) {
    return std::partition_point(run_.begin(), run_.end(),
                                [&](Pair pair) { return IsBelow(pair, key); });
  };
  if (high != nullptr) CutOff(first_from(*high), run_.end());
  if (low != nullptr) CutOff(run_.begin(), first_from(*low));
}

// A damaged key may seem to be outside of the range, and hide others after it; or inside, and keep
// others that are not. Then it is the last that is kept.
template <class C, class Cursor>
void LeafScan<C, Cursor>::CutOff(Pair* first, Pair* last) {
  if constexpr (C::kRecords) {
    const auto from = first == run_.begin() ? first : first - 1;
    const auto to = last == run_.end() ? last : last + 1;
    damaged_ |= !std::all_of(from, to, [&](Pair pair) { return codec_.KeyFits(pair); });
  }
  run_.Erase(first, last);
}

template <class C, class Cursor>
bool LeafScan<C, Cursor>::IsBelow(Pair pair, const Key& key) const {
  if constexpr (C::kRecords) {
    if (pair.key == key.word) {
      char scratch[8];
      return codec_.KeyText(pair, scratch) < key.text;
    }
  }
  return pair.key < key.word;
}

// --- to the visitor ---

// Each item is shown in the same place.
template <class C, class Cursor>
Outcome LeafScan<C, Cursor>::VisitWords(ScanVisitor visitor) {
  char key[8] = {};
  char value[8] = {};
  const ScanItem item{{key, sizeof(key)}, {value, options_.keys_only ? 0 : sizeof(value)}, 0, 0};
  Leaf leaf;
  for (bool last = false; !last; last = leaf.last) {
    Collect(left_, &leaf);
    Merge(leaf);
    const uint64_t shown = std::min<uint64_t>(run_.size(), left_);
    for (const Pair pair : std::span(run_.begin(), shown)) {
      StoreBigEndian(pair.key, key);
      StoreBigEndian(pair.value, value);
      if (!visitor(item)) return Outcome::kOk;
    }
    left_ -= shown;
    if (left_ == 0) return Outcome::kOk;
  }
  return damaged_ ? Outcome::kDataLoss : Outcome::kOk;
}

template <class C, class Cursor>
Outcome LeafScan<C, Cursor>::VisitRecords(ScanVisitor visitor) requires C::kRecords {
  ScanPage page;
  while (!done_ && left_ > 0) {
    const Outcome outcome = FillPage(&page);
    if (!page.Visit(visitor)) return Outcome::kOk;
    if (outcome != Outcome::kOk) return outcome;
    left_ -= page.items();
  }
  return Outcome::kOk;
}

// Copies items until the page is full or the range ends. The next leaf is copied before the items
// of the current one, unless those suffice.
template <class C, class Cursor>
Outcome LeafScan<C, Cursor>::FillPage(ScanPage* page) requires C::kRecords {
  page->Clear();
  page_pairs_ = 0;
  Leaf leaves[2];
  bool ahead = false;
  const EpochGuard guard;
  for (unsigned at = 0; !done_; at ^= 1) {
    Leaf& leaf = leaves[at];
    if (!ahead) Collect(left_ - page->items(), &leaf);
    const uint64_t wanted = left_ - page->items();
    const unsigned pairs = leaf.pairs();
    ahead = !leaf.last && wanted > pairs;
    if (ahead) Collect(wanted - pairs, &leaves[at ^ 1]);
    Merge(leaf);
    bool full = false;
    const Outcome outcome = damaged_ ? Outcome::kDataLoss : CopyRun(page, &full);
    if (full || outcome != Outcome::kOk) return outcome;
    done_ = leaf.last;
  }
  return Outcome::kOk;
}

template <class C, class Cursor>
Outcome LeafScan<C, Cursor>::CopyRun(ScanPage* page, bool* full) requires C::kRecords {
  for (const Pair pair : run_) {
    const Outcome outcome = CopyItem(pair, page);
    if (outcome != Outcome::kOk) return outcome;
    done_ = page->items() == left_;
    *full = done_ || page->used() >= kPageBytes || ++page_pairs_ == kPagePairs;
    if (!*full) continue;
    if (!done_) ResumeBehind(pair);
    break;
  }
  return Outcome::kOk;
}

// Skips expired values.
template <class C, class Cursor>
Outcome LeafScan<C, Cursor>::CopyItem(Pair pair, ScanPage* page) const requires C::kRecords {
  if (!C::IsRecord(pair.value)) {
    if (!C::InlineIsSound(pair)) return Outcome::kDataLoss;
    char key[8];
    char value[8];
    std::string_view shown;
    if (!options_.keys_only) shown = C::InlineValue(pair.value, value);
    page->Append(codec_.KeyText(pair, key), shown, 0, 0);
    return Outcome::kOk;
  }
  const pmem::Offset offset = C::RecordOf(pair.value);
  const RecordView record = ViewRecord(pool_, offset);
  bool live;
  const Outcome outcome = values_.CheckRecord(offset, record, options_.now_unix_ms, &live);
  if (outcome != Outcome::kOk || !live) return outcome;
  usual_record_bytes_ =
      std::min(RecordBytes(record.key.size(), record.value.size(), record.expiry_unix_ms != 0),
               kFetchedBytes);
  const std::string_view value = options_.keys_only ? std::string_view() : record.value;
  page->Append(record.key, value, codec_.inline_pairs() ? 0 : record.version,
               record.expiry_unix_ms);
  return Outcome::kOk;
}

// The page ends with this pair: the collected pairs are outdated when the scan continues.
template <class C, class Cursor>
void LeafScan<C, Cursor>::ResumeBehind(Pair pair) requires C::kRecords {
  char scratch[8];
  resume_text_.assign(codec_.KeyText(pair, scratch));
  if (!options_.reverse) resume_text_.push_back('\0');
  near_ = C::MakeKey(resume_text_);
  has_near_ = true;
  has_passed_ = false;
  cursor_.Forget();
}

}  // namespace lodgekv
