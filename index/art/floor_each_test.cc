// Searches for several keys at once give what single ones do.
#include "index/art/floor_each.h"

#include <gtest/gtest.h>

#include "index/art/art_test_util.h"
#include "tests/support/allocation_counter.h"

namespace lodgekv::art {
namespace {

template <class Its>
using Lowers = std::vector<const Lower*>;

// What FloorEach finds for the keys; it says of each what arrives before it is found.
template <class Its>
Lowers<Its> FindEach(const Its& tree, const std::vector<std::string>& texts) {
  Lowers<Its> found(texts.size());
  Lowers<Its> arrived(texts.size());
  size_t next = 0;
  const uint64_t before = ThreadAllocations();
  tree.template FloorEach<SearchByPointer>(
      texts.size(), [&](size_t i) { return KeyIn<Its>(texts[i]); },
      [&](size_t i, const Lower* lower) { arrived[i] = lower; },
      [&](size_t i, const Lower* lower) {
        if (i == next) ++next;
        found[i] = lower;
      });
  EXPECT_EQ(ThreadAllocations(), before);
  EXPECT_EQ(next, texts.size()) << "in order, each once";
  EXPECT_EQ(arrived, found);
  return found;
}

template <class Its>
void FindsAsSingleSearches(MakeText make, uint64_t separators, size_t at_once) {
  Model<Its> model;
  std::vector<std::string> lows;
  for (uint64_t n = 0; n < separators; ++n) lows.push_back(make(n));
  model.Build(lows, 1);
  for (uint64_t n = 0; n < 2 * separators + 40; n += at_once) {
    std::vector<std::string> texts;
    for (uint64_t i = n; i < n + at_once; ++i) texts.push_back(make(Mix(i) % (2 * separators + 1)));
    const Lowers<Its> found = FindEach(model.tree(), texts);
    for (size_t i = 0; i < texts.size(); ++i) {
      ASSERT_EQ(found[i], model.tree().Floor(KeyIn<Its>(texts[i])));
    }
  }
}

TEST(ArtFloorEachTest, FindsAsSingleSearches) {
  for (const size_t at_once : {1, 2, 15, 16, 17, 40}) {
    for (const uint64_t separators : {0, 1, 2, 60, 3000}) {
      for (const MakeText make : kWordSets) {
        ASSERT_NO_FATAL_FAILURE(FindsAsSingleSearches<WordTree>(make, separators, at_once));
      }
      for (const MakeText make : kTextSets) {
        ASSERT_NO_FATAL_FAILURE(FindsAsSingleSearches<TextTree>(make, separators, at_once));
      }
    }
  }
}

// The node that shows a lower node changes between the search and the arrival of one in the group:
// what had arrived is sought again, and what was removed is not found.
TEST(ArtFloorEachTest, WhatChangesMeanwhileIsSoughtAgain) {
  Model<WordTree> model;
  for (uint64_t n = 0; n < 100; ++n) model.Insert(BigEndian(n * 256));
  WordTree& tree = model.tree();
  const auto key_at = [](size_t i) { return i * 256; };
  Lower* removed = nullptr;
  std::vector<unsigned> arrivals(16);
  std::vector<const Lower*> found(16);
  tree.FloorEach<SearchByPointer>(
      16, key_at,
      [&](size_t i, const Lower*) {
        ++arrivals[i];
        if (i == 7 && removed == nullptr) removed = tree.Remove(key_at(7));
      },
      [&](size_t i, const Lower* lower) { found[i] = lower; });
  ASSERT_NE(removed, nullptr);
  EXPECT_EQ(arrivals[7], 2u);
  EXPECT_EQ(found[7], tree.Floor(key_at(6)));
  EXPECT_EQ(found[6], found[7]);
  EXPECT_EQ(found[8], tree.Floor(key_at(8)));
}

// The same of single searches.
TEST(ArtFloorTest, WhatChangesBeforeTheArrivalEndsIsSoughtAgain) {
  Model<WordTree> model;
  for (uint64_t n = 0; n < 100; ++n) model.Insert(BigEndian(n * 256));
  WordTree& tree = model.tree();
  unsigned arrivals = 0;
  const auto remove_first = [&](uint64_t key) {
    return [&arrivals, &tree, key](Lower*) {
      if (arrivals++ == 0) tree.Remove(key);
    };
  };
  EXPECT_EQ(tree.Floor(50 * 256, remove_first(50 * 256)), tree.Floor(49 * 256));
  EXPECT_EQ(arrivals, 2u);
  arrivals = 0;
  EXPECT_EQ(tree.Before(41 * 256, remove_first(40 * 256)), tree.Floor(39 * 256));
  EXPECT_EQ(arrivals, 2u);
  arrivals = 0;
  EXPECT_EQ(tree.Last(remove_first(99 * 256)), tree.Floor(98 * 256));
  EXPECT_EQ(arrivals, 2u);
}

}  // namespace
}  // namespace lodgekv::art
