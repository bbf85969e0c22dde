// Trees that are built at once, and very deep ones.
#include "index/art/build.h"

#include <gtest/gtest.h>

#include <random>

#include "index/art/art_test_util.h"

namespace lodgekv::art {
namespace {

template <class Its>
void Builds(MakeText make, size_t count, unsigned threads) {
  std::vector<std::string> lows;
  for (uint64_t n = 0; n < count; ++n) lows.push_back(make(n));
  Model<Its> model;
  model.Build(lows, threads);
  ASSERT_NO_FATAL_FAILURE(model.ExpectAll());
  EXPECT_EQ(model.tree().nodes().held_bytes(), model.tree().nodes().used_bytes());
  for (uint64_t n = count; n < count + 100; ++n) {
    ASSERT_NO_FATAL_FAILURE(model.Insert(make(n)));
    ASSERT_NO_FATAL_FAILURE(model.Remove(make(n / 2)));
  }
  EXPECT_TRUE(Checker(model.tree()).Check().ok()) << Checker(model.tree()).Check();
}

TEST(ArtBuildTest, FromAnyNumberOfSeparators) {
  for (const size_t count : {0, 1, 2, 3, 5, 17, 49, 300, 3000}) {
    SCOPED_TRACE(count);
    for (const MakeText make : kWordSets) Builds<WordTree>(make, count, 1 + count % 3);
    for (const MakeText make : kTextSets) Builds<TextTree>(make, count, 1 + count % 3);
  }
}

// The tree that was built is the one that grows from the same separators, up to the nodes' kinds.
TEST(ArtBuildTest, IsTheTreeThatGrows) {
  Model<TextTree> built;
  Model<TextTree> grown;
  std::vector<std::string> lows;
  for (uint64_t n = 0; n < 3000; ++n) {
    lows.push_back(Url(n));
    grown.Insert(lows.back());
  }
  built.Build(lows, 2);
  for (const Kind kind : {Kind::k4, Kind::k16, Kind::k48, Kind::k256}) {
    EXPECT_EQ(built.tree().nodes().count(kind), grown.tree().nodes().count(kind));
  }
}

// Each key is the beginning of the next one, up to the longest: as many nodes one above the other.
struct Nested {
  alignas(8) uint32_t length;
};
struct TextOfNested {
  const char* text;
  std::string_view operator()(const Nested* nested) const { return {text, nested->length}; }
};

TEST(ArtBuildTest, AsDeepAsKeysAreLong) {
  constexpr uint32_t kLongest = 65535;
  const std::string text(kLongest, '\0');
  DramArena arena;
  Tree<Nested, TextOfNested> tree(arena, TextOfNested{text.data()});
  std::vector<Nested> nested(kLongest);
  std::vector<Nested*> all;
  for (uint32_t i = 0; i < kLongest; ++i) {
    nested[i].length = i + 1;
    all.push_back(&nested[i]);
  }
  Builder(tree, std::span<Nested* const>(all)).Build(2);
  EXPECT_TRUE(Checker(tree).Check().ok()) << Checker(tree).Check();
  EXPECT_EQ(tree.nodes().count(Kind::k4), kLongest - 1);
  EXPECT_EQ(tree.Floor(text), &nested.back());
  EXPECT_EQ(tree.Before(text), &nested[kLongest - 2]);
  EXPECT_EQ(tree.Floor("\xff"), &nested.back());
  std::string other = text;
  other.back() = '\1';
  EXPECT_EQ(tree.Floor(other), &nested.back());
  EXPECT_EQ(tree.Remove(text), &nested.back());
  EXPECT_EQ(tree.Remove(std::string_view(text).substr(0, 30000)), &nested[29999]);
  EXPECT_EQ(tree.Floor(std::string_view(text).substr(0, 30000)), &nested[29998]);
  EXPECT_EQ(tree.Floor(text), &nested[kLongest - 2]);
  EXPECT_TRUE(tree.Insert(text, &nested.back()));
  EXPECT_EQ(tree.Floor(text), &nested.back());
}

}  // namespace
}  // namespace lodgekv::art
