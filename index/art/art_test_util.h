// For tests: lower nodes with keys of both forms, key sets, and a tree beside a map.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "index/art/build.h"
#include "index/art/check.h"
#include "index/art/tree.h"
#include "index/node/dram_arena.h"
#include "index/node/key_word.h"

namespace lodgekv::art {

struct Lower {
  std::string low;
};
struct WordOfLower {
  uint64_t operator()(const Lower* lower) const { return KeyWord(lower->low, 0); }
};
struct TextOfLower {
  std::string_view operator()(const Lower* lower) const { return lower->low; }
};
using WordTree = Tree<Lower, WordOfLower>;
using TextTree = Tree<Lower, TextOfLower>;

// The key of a text in a tree's form; the text stays.
template <class Its>
typename Its::Key KeyIn(const std::string& text) {
  if constexpr (std::is_same_v<typename Its::Key, uint64_t>) {
    return KeyWord(text, 0);
  } else {
    return text;
  }
}

inline std::string BigEndian(uint64_t word) {
  std::string text(8, '\0');
  StoreBigEndian(word, text.data());
  return text;
}
inline uint64_t Mix(uint64_t x) {
  x = (x ^ x >> 31) * 0x9E3779B97F4A7C15ull;
  return x ^ x >> 29;
}

// The n-th key of a set.
using MakeText = std::string (*)(uint64_t n);

// Of eight bytes.
inline std::string Plain(uint64_t n) { return BigEndian(Mix(n + 1)); }
inline std::string Dense(uint64_t n) { return BigEndian(Mix(n) % 3000); }
inline std::string Ascending(uint64_t n) { return BigEndian(n); }
inline std::string Descending(uint64_t n) { return BigEndian(1'000'000 - n); }
// Few bytes in many places: nodes of all kinds at all depths.
inline std::string FewBits(uint64_t n) { return BigEndian(Mix(n) & 0x0301070f3f7f01ff); }

// Of any length.
inline std::string LongPrefix(uint64_t n) {
  return "tenant:0007/user:" + std::to_string(Mix(n) % 100000);
}
inline std::string OneOfThreePrefixes(uint64_t n) {
  return std::string(20, static_cast<char>('a' + Mix(n) % 3)) + std::to_string(Mix(n) % 3001);
}
// Beginnings of one another, with zeros.
inline std::string Zeros(uint64_t n) {
  return "x" + std::string(Mix(n) % 60, '\0') + (n % 2 == 0 ? "" : "y");
}
inline std::string Short(uint64_t n) {
  return std::string(Mix(n) % 3, static_cast<char>(Mix(n) >> 8)) +
         std::string(Mix(n) % 4, static_cast<char>(Mix(n) >> 16));
}
// Two letters: forks at every depth, within long prefixes too.
inline std::string TwoLetters(uint64_t n) {
  std::string text;
  uint64_t bits = Mix(n);
  for (uint64_t i = 0; i < 4 + Mix(n) % 5; ++i, bits >>= 3) {
    text += std::string(1 + bits % 8 * (bits % 8), bits % 2 == 0 ? '\0' : '\xff');
  }
  return text;
}
// 255 bytes that differ in one place.
inline std::string Of255Bytes(uint64_t n) {
  std::string text(255, 'k');
  text[Mix(n) % 255] = static_cast<char>(Mix(n) >> 20);
  return text;
}
// As of pages on a few hosts.
inline std::string Url(uint64_t n) {
  char text[96];
  std::snprintf(text, sizeof(text),
                "https://www.host%03llu.example.org/section/%llu/page-%05llu.html",
                static_cast<unsigned long long>(Mix(n) % 40),
                static_cast<unsigned long long>(Mix(n) >> 20 & 7),
                static_cast<unsigned long long>(Mix(n) >> 30 & 0xffff));
  return text;
}

inline constexpr MakeText kWordSets[] = {Plain, Dense, Ascending, Descending, FewBits};
inline constexpr MakeText kTextSets[] = {Plain, Dense,  LongPrefix, OneOfThreePrefixes,
                                         Zeros, Short,  TwoLetters, Of255Bytes,
                                         Url,   FewBits};

// A tree, and a map of what must be in it.
template <class Its>
class Model {
 public:
  Its& tree() { return tree_; }
  const std::map<std::string, Lower*>& map() const { return map_; }

  void Build(const std::vector<std::string>& lows, unsigned threads) {
    for (const std::string& low : lows) map_[low] = New(low);
    std::vector<Lower*> all;
    for (const auto& [low, lower] : map_) all.push_back(lower);
    Builder(tree_, std::span<Lower* const>(all)).Build(threads);
  }

  void Insert(const std::string& text) {
    Lower* lower = New(text);
    const bool absent = map_.emplace(text, lower).second;
    ASSERT_EQ(tree_.Insert(KeyIn<Its>(text), lower), absent) << ::testing::PrintToString(text);
  }
  void Remove(const std::string& text) {
    const auto at = map_.find(text);
    Lower* const expected = at == map_.end() ? nullptr : at->second;
    ASSERT_EQ(tree_.Remove(KeyIn<Its>(text)), expected) << ::testing::PrintToString(text);
    if (expected != nullptr) map_.erase(at);
  }
  void Replace(const std::string& text) {
    const auto at = map_.find(text);
    Lower* const expected = at == map_.end() ? nullptr : at->second;
    Lower* by = New(text);
    ASSERT_EQ(tree_.Replace(KeyIn<Its>(text), by), expected) << ::testing::PrintToString(text);
    if (expected != nullptr) at->second = by;
  }

  template <class Form = SearchByPointer>
  void ExpectFinds(const std::string& text) const {
    const auto above = map_.upper_bound(text);
    const auto not_below = map_.lower_bound(text);
    Lower* const floor = above == map_.begin() ? nullptr : std::prev(above)->second;
    Lower* const before = not_below == map_.begin() ? nullptr : std::prev(not_below)->second;
    const auto key = KeyIn<Its>(text);
    ASSERT_EQ(tree_.template Floor<Form>(key), floor) << ::testing::PrintToString(text);
    ASSERT_EQ(tree_.template Before<Form>(key), before) << ::testing::PrintToString(text);
  }
  // All keys of the map, and what is around them.
  void ExpectAll() const {
    for (const auto& [low, lower] : map_) {
      ASSERT_NO_FATAL_FAILURE(ExpectFinds(low));
      ASSERT_NO_FATAL_FAILURE(ExpectFinds<SearchByAvx2>(low));
      ASSERT_NO_FATAL_FAILURE(ExpectAround(low));
    }
    EXPECT_EQ(tree_.Last(), map_.empty() ? nullptr : map_.rbegin()->second);
    EXPECT_EQ(tree_.size(), map_.size());
    EXPECT_TRUE(Checker(tree_).Check().ok()) << Checker(tree_).Check();
  }

  DramArena& arena() { return arena_; }

 private:
  static constexpr bool kWords = std::is_same_v<typename Its::Key, uint64_t>;

  Lower* New(const std::string& low) { return &lowers_.emplace_back(Lower{low}); }
  void ExpectAround(const std::string& low) const {
    std::string other = low;
    for (const size_t at : {low.size() / 2, low.size() - 1}) {
      if (low.empty()) break;
      for (const int step : {-1, 1}) {
        other[at] = static_cast<char>(low[at] + step);
        ASSERT_NO_FATAL_FAILURE(ExpectFinds(other));
      }
      other = low;
    }
    if (kWords) return;
    ASSERT_NO_FATAL_FAILURE(ExpectFinds(low + '\0'));
    ASSERT_NO_FATAL_FAILURE(ExpectFinds(low + "\xff\xff"));
    ASSERT_NO_FATAL_FAILURE(ExpectFinds(low.substr(0, low.size() - (low.empty() ? 0 : 1))));
    ASSERT_NO_FATAL_FAILURE(ExpectFinds(low.substr(0, low.size() / 2)));
  }

  DramArena arena_;
  Its tree_{arena_};
  std::deque<Lower> lowers_;
  std::map<std::string, Lower*> map_;
};

}  // namespace lodgekv::art
