// Divides log entries by key into bins of about equal size, each later ordered by itself: for a
// start that may take no longer than to read the log (pending_log.h).
//
// Used by recovery; const methods are thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "index/node/codec.h"
#include "index/node/key_word.h"

namespace lodgekv::sptree {

// The lowest keys of all bins but the first. Compared are words behind what all of them begin with,
// and texts only where these are equal.
template <class C>
class BinBorders {
 public:
  using Probe = std::conditional_t<C::kRecords, std::string_view, uint64_t>;
  using Drawn = std::conditional_t<C::kRecords, std::string, uint64_t>;

  static Probe ProbeOf(const typename C::Key& key) {
    if constexpr (C::kRecords) {
      return key.text;
    } else {
      return key.word;
    }
  }
  static Probe ProbeOf(typename C::Separator separator) {
    if constexpr (C::kRecords) {
      return separator->view();
    } else {
      return separator;
    }
  }

  // Of keys that were drawn from all, in any order.
  void Set(std::vector<Drawn> drawn, size_t bins);
  size_t bins() const { return words_.size() + 1; }
  size_t BinOf(Probe key) const {
    size_t bin;
    BinsOf({&key, 1}, &bin);
    return bin;
  }
  // Of several: their searches overlap.
  void BinsOf(std::span<const Probe> keys, size_t* bins) const;

 private:
  static constexpr size_t kTogether = 32;

  void Search(std::span<const uint64_t> words, size_t* bins) const;
  // Ascends with the keys.
  uint64_t WordOf(Probe key) const {
    if constexpr (C::kRecords) {
      const std::string_view same(common_);
      if (same.empty() || key.starts_with(same)) return KeyWord(key, same.size());
      return key < same ? 0 : UINT64_MAX;
    } else {
      return key;
    }
  }

  std::string common_;
  std::vector<uint64_t> words_;
  std::vector<Drawn> texts_;
};

template <class C>
void BinBorders<C>::Set(std::vector<Drawn> drawn, size_t bins) {
  std::sort(drawn.begin(), drawn.end());
  if (drawn.empty()) return;
  if constexpr (C::kRecords) {
    const auto [a, b] = std::mismatch(drawn.front().begin(), drawn.front().end(),
                                      drawn.back().begin(), drawn.back().end());
    common_.assign(drawn.front().begin(), a);
  }
  for (size_t i = 1; i < bins; ++i) {
    texts_.push_back(drawn[i * drawn.size() / bins]);
    words_.push_back(WordOf(texts_.back()));
  }
}

// The number of borders that are not above each word. Without branches, which could not be
// predicted: what a compiler makes of a condition here may be one.
template <class C>
void BinBorders<C>::Search(std::span<const uint64_t> words, size_t* bins) const {
  std::fill_n(bins, words.size(), 0);
  size_t left = words_.size();
  if (left == 0) return;
  const uint64_t* borders = words_.data();
  const auto pass = [&](size_t skipped) {
    for (size_t i = 0; i < words.size(); ++i) {
      const size_t reached = borders[bins[i] + skipped - 1] <= words[i] ? 1 : 0;
      bins[i] += skipped & -reached;
    }
  };
  for (; left > 1; left -= left / 2) pass(left / 2);
  pass(1);
}

template <class C>
void BinBorders<C>::BinsOf(std::span<const Probe> keys, size_t* bins) const {
  while (keys.size() > kTogether) {
    BinsOf(keys.first(kTogether), bins);
    keys = keys.subspan(kTogether);
    bins += kTogether;
  }
  uint64_t words[kTogether];
  for (size_t i = 0; i < keys.size(); ++i) words[i] = WordOf(keys[i]);
  Search({words, keys.size()}, bins);
  if constexpr (C::kRecords) {
    for (size_t i = 0; i < keys.size(); ++i) {
      if (bins[i] == 0 || words_[bins[i] - 1] != words[i]) continue;
      const auto first = std::lower_bound(words_.begin(), words_.end(), words[i]) - words_.begin();
      const auto end = texts_.begin() + static_cast<ptrdiff_t>(bins[i]);
      bins[i] = static_cast<size_t>(std::upper_bound(texts_.begin() + first, end, keys[i]) -
                                    texts_.begin());
    }
  }
}

// Where an entry is.
struct EntryRef {
  uint32_t log;
  uint32_t position : 31;
  uint32_t in_last_group : 1;
};
static_assert(sizeof(EntryRef) == 8);

// The entries that one task has read, by bin.
class BinnedEntries {
 public:
  void Add(EntryRef ref, size_t bin) {
    refs_.push_back(ref);
    bins_.push_back(static_cast<uint16_t>(bin));
  }
  void Reserve(size_t entries) {
    refs_.reserve(entries);
    bins_.reserve(entries);
  }
  // After the last Add.
  void Divide(size_t bins) {
    begins_.assign(bins + 1, 0);
    for (const uint16_t bin : bins_) ++begins_[bin + 1u];
    for (size_t i = 0; i < bins; ++i) begins_[i + 1] += begins_[i];
    std::vector<uint32_t> next(begins_.begin(), begins_.end() - 1);
    std::vector<EntryRef> divided(refs_.size());
    for (size_t i = 0; i < refs_.size(); ++i) divided[next[bins_[i]]++] = refs_[i];
    refs_ = std::move(divided);
    std::vector<uint16_t>().swap(bins_);
  }
  template <class Visit>
  void VisitAll(Visit visit) const {
    for (const EntryRef ref : refs_) visit(ref);
  }
  template <class Visit>
  void VisitBin(size_t bin, Visit visit) const {
    for (uint32_t i = begins_[bin]; i < begins_[bin + 1]; ++i) visit(refs_[i]);
  }

 private:
  std::vector<EntryRef> refs_;
  std::vector<uint16_t> bins_;
  std::vector<uint32_t> begins_;
};

}  // namespace lodgekv::sptree
