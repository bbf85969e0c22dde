// The tree beside a map, with keys of both forms.
#include "index/art/tree.h"

#include <gtest/gtest.h>

#include <random>

#include "index/art/art_test_util.h"
#include "tests/support/allocation_counter.h"

namespace lodgekv::art {
namespace {

template <class Its>
void Grows(MakeText make) {
  Model<Its> model;
  for (uint64_t n = 0; n < 1200; ++n) {
    ASSERT_NO_FATAL_FAILURE(model.Insert(make(n)));
    ASSERT_NO_FATAL_FAILURE(model.ExpectFinds(make(n)));
    ASSERT_NO_FATAL_FAILURE(model.ExpectFinds(make(Mix(n) % 2400)));
  }
  model.ExpectAll();
}

TEST(ArtTreeTest, WordsGrow) {
  for (const MakeText make : kWordSets) ASSERT_NO_FATAL_FAILURE(Grows<WordTree>(make));
}

TEST(ArtTreeTest, TextsGrow) {
  for (const MakeText make : kTextSets) ASSERT_NO_FATAL_FAILURE(Grows<TextTree>(make));
}

// Grows and shrinks by turns, down to nothing.
template <class Its>
void ChangesAtRandom(MakeText make) {
  Model<Its> model;
  std::mt19937_64 random(7);
  for (const uint64_t wanted : {1000, 30, 600, 0}) {
    while (model.map().size() != wanted) {
      const bool grows = model.map().size() < wanted;
      const std::string text = make(random() % 3000);
      const auto there = model.map().lower_bound(text);
      if (!grows && there != model.map().end()) {
        ASSERT_NO_FATAL_FAILURE(model.Remove(std::string(there->first)));
      } else if (grows) {
        ASSERT_NO_FATAL_FAILURE(model.Insert(text));
      }
      ASSERT_NO_FATAL_FAILURE(model.Replace(make(random() % 3000)));
      ASSERT_NO_FATAL_FAILURE(model.ExpectFinds(make(random() % 3000)));
    }
    ASSERT_NO_FATAL_FAILURE(model.ExpectAll());
  }
  EXPECT_EQ(model.tree().nodes().used_bytes(), 0u);
}

TEST(ArtTreeTest, WordsGrowAndShrink) {
  for (const MakeText make : kWordSets) ASSERT_NO_FATAL_FAILURE(ChangesAtRandom<WordTree>(make));
}

TEST(ArtTreeTest, TextsGrowAndShrink) {
  for (const MakeText make : {Plain, LongPrefix, OneOfThreePrefixes, TwoLetters, Of255Bytes, Url}) {
    ASSERT_NO_FATAL_FAILURE(ChangesAtRandom<TextTree>(make));
  }
}

TEST(ArtTreeTest, AnEmptyTreeHasNothing) {
  Model<WordTree> words;
  Model<TextTree> texts;
  words.ExpectFinds(BigEndian(0));
  words.ExpectFinds(BigEndian(~uint64_t{0}));
  texts.ExpectFinds("");
  texts.ExpectFinds("a");
  words.ExpectAll();
  texts.ExpectAll();
  words.Remove(BigEndian(1));
  texts.Replace("a");
}

template <class Its>
void SearchesAllocateNothing(MakeText make) {
  Model<Its> model;
  std::vector<std::string> texts;
  for (uint64_t n = 0; n < 2000; ++n) {
    texts.push_back(make(n));
    model.Insert(make(n / 2));
  }
  const uint64_t before = ThreadAllocations();
  uint64_t found = 0;
  for (const std::string& text : texts) {
    const auto key = KeyIn<Its>(text);
    found += model.tree().Floor(key) != nullptr ? 1 : 0;
    found += model.tree().Before(key) != nullptr ? 1 : 0;
  }
  EXPECT_EQ(ThreadAllocations(), before);
  EXPECT_GT(found, 0u);
}

TEST(ArtTreeTest, SearchesAllocateNothing) {
  for (const MakeText make : kWordSets) SearchesAllocateNothing<WordTree>(make);
  for (const MakeText make : kTextSets) SearchesAllocateNothing<TextTree>(make);
}

struct CountedWord {
  static inline uint64_t looks = 0;
  uint64_t operator()(const Lower* lower) const {
    ++looks;
    return KeyWord(lower->low, 0);
  }
};

// child.h. Searches that end at a leaf, half of them at one that is above their key.
TEST(ArtTreeTest, HintsSpareTheLookAtLeaves) {
  constexpr uint64_t kLeaves = 20'000;
  Model<Tree<Lower, CountedWord>> model;
  model.Insert(BigEndian(0));
  for (uint64_t n = 0; n < kLeaves; ++n) model.Insert(Plain(n));
  CountedWord::looks = 0;
  for (uint64_t n = 0; n < kLeaves; ++n) {
    const uint64_t beside = KeyWord(Plain(n), 0) ^ Mix(~n) >> 24;
    EXPECT_NE(model.tree().Floor(beside), nullptr);
  }
  EXPECT_LE(CountedWord::looks, kLeaves / 100);
}

// Keys that part from the separators in the middle of a prefix that no node holds completely: with
// something to the left, to the right, above, and in a second such prefix.
TEST(ArtTreeTest, KeysPartWithinLongPrefixes) {
  Model<TextTree> model;
  const std::string first = "0123456789abcdefghij";
  const std::string second = first + "/ABCDEFGHIJKLMNOPQRST";
  for (const char* end : {"", "1", "2", "22", "3"}) model.Insert(second + end);
  for (const char* other : {"0", "0123456789abc", "1", "/"}) model.Insert(other);
  model.Insert(first + ".");
  model.Insert(first + "0");
  for (size_t at = 0; at < second.size(); ++at) {
    for (const int step : {-1, 1}) {
      std::string text = second + "22";
      text[at] = static_cast<char>(text[at] + step);
      ASSERT_NO_FATAL_FAILURE(model.ExpectFinds(text));
      ASSERT_NO_FATAL_FAILURE(model.ExpectFinds(text.substr(0, second.size())));
      ASSERT_NO_FATAL_FAILURE(model.ExpectFinds(text.substr(0, at + 1)));
      ASSERT_NO_FATAL_FAILURE(model.ExpectFinds(text + "behind"));
    }
  }
  model.ExpectAll();
}

}  // namespace
}  // namespace lodgekv::art
