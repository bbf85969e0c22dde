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
  for (uint64_t n = 0; n < 3000; ++n) {
    ASSERT_NO_FATAL_FAILURE(model.Insert(make(n)));
    ASSERT_NO_FATAL_FAILURE(model.ExpectFinds(make(n)));
    ASSERT_NO_FATAL_FAILURE(model.ExpectFinds(make(Mix(n) % 6000)));
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
  for (const uint64_t wanted : {2000, 30, 1200, 0}) {
    while (model.map().size() != wanted) {
      const bool grows = model.map().size() < wanted;
      const std::string text = make(random() % 6000);
      const auto there = model.map().lower_bound(text);
      if (!grows && there != model.map().end()) {
        ASSERT_NO_FATAL_FAILURE(model.Remove(std::string(there->first)));
      } else if (grows) {
        ASSERT_NO_FATAL_FAILURE(model.Insert(text));
      }
      ASSERT_NO_FATAL_FAILURE(model.Replace(make(random() % 6000)));
      ASSERT_NO_FATAL_FAILURE(model.ExpectFinds(make(random() % 6000)));
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

}  // namespace
}  // namespace lodgekv::art
