#include "index/node/shortcuts.h"

#include <gtest/gtest.h>

#include <limits>

#include "index/node/version_lock.h"

namespace lodgekv {
namespace {

constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

struct Node {
  explicit Node(uint64_t number) { lock.StartAt(number); }
  void Publish() {
    lock.BeginPublish();
    lock.EndPublish();
  }
  VersionLock lock;
};

class ShortcutsTest : public ::testing::Test {
 protected:
  // The node for `word`; null if there is none or if it is stale, as renewed_ tells.
  const Node* Find(uint64_t word) {
    uint64_t version;
    renewed_ = false;
    return shortcuts_.Find(word, &version, [&] { renewed_ = true; });
  }
  void Store(uint64_t word, const Node& node) {
    shortcuts_.PlaceOf(word).entry->Store(&node, node.lock.ReadBegin());
  }

  Shortcuts<Node> shortcuts_;
  Node a_{1}, b_{2};
  bool renewed_ = false;
};

TEST_F(ShortcutsTest, ALowTreeHasNone) {
  EXPECT_FALSE(shortcuts_.AreOutgrown(Shortcuts<Node>::kFewestNodes - 1));
  EXPECT_TRUE(shortcuts_.AreOutgrown(Shortcuts<Node>::kFewestNodes));
  for (const uint64_t word : {uint64_t{0}, uint64_t{12345}, kMost}) {
    EXPECT_EQ(shortcuts_.PlaceOf(word).entry, nullptr);
    EXPECT_EQ(Find(word), nullptr);
    EXPECT_FALSE(renewed_);
  }
}

TEST_F(ShortcutsTest, RangesFollowOneAnotherAndHaveTheirWords) {
  const Shortcuts<Node>::Range all[] = {
      {0, kMost}, {5, kMost}, {kMost - 10, kMost}, {1000, 1009}, {uint64_t{1} << 63, kMost - 5}};
  for (const auto [first, last] : all) {
    Shortcuts<Node> shortcuts;
    shortcuts.Draw(20'000, {first, last});
    uint64_t ranges = 0;
    for (uint64_t word = first;; ++ranges) {
      const auto place = shortcuts.PlaceOf(word);
      ASSERT_NE(place.entry, nullptr) << word;
      ASSERT_LE(place.range.first, word);
      ASSERT_GE(place.range.last, word);
      ASSERT_EQ(shortcuts.PlaceOf(place.range.first).entry, place.entry);
      ASSERT_EQ(shortcuts.PlaceOf(place.range.last).entry, place.entry);
      if (place.range.last >= last) break;
      word = place.range.last + 1;
      ASSERT_NE(shortcuts.PlaceOf(word).entry, place.entry);
    }
    EXPECT_LE(ranges, 16'384) << first;
    EXPECT_GE(ranges, std::min<uint64_t>(last - first, 4'000)) << first;
  }
}

TEST_F(ShortcutsTest, WordsOutsideOfTheRangesHaveNoEntry) {
  shortcuts_.Draw(1'000, {uint64_t{1} << 40, uint64_t{3} << 40});
  for (const uint64_t word : {uint64_t{0}, uint64_t{1} << 30, uint64_t{9} << 40, kMost}) {
    EXPECT_EQ(shortcuts_.PlaceOf(word).entry, nullptr) << word;
    EXPECT_EQ(Find(word), nullptr);
    EXPECT_FALSE(renewed_);
  }
}

TEST_F(ShortcutsTest, AnEntryIsTakenUntilItsNodeIsPublished) {
  shortcuts_.Draw(1'000, {0, kMost});
  EXPECT_EQ(Find(7), nullptr);
  EXPECT_TRUE(renewed_);
  Store(7, a_);
  EXPECT_EQ(Find(7), &a_);
  EXPECT_FALSE(renewed_);
  a_.Publish();
  EXPECT_EQ(Find(7), nullptr);
  EXPECT_TRUE(renewed_);
}

TEST_F(ShortcutsTest, ALockedNodeIsStillTaken) {
  shortcuts_.Draw(1'000, {0, kMost});
  Store(7, a_);
  ASSERT_TRUE(a_.lock.TryLock());
  EXPECT_EQ(Find(7), &a_);
}

TEST_F(ShortcutsTest, HalfOfAnotherEntryIsStale) {
  shortcuts_.Draw(1'000, {0, kMost});
  shortcuts_.PlaceOf(7).entry->Store(&b_, a_.lock.ReadBegin());
  EXPECT_EQ(Find(7), nullptr);
  EXPECT_TRUE(renewed_);
}

TEST_F(ShortcutsTest, AreDrawnAnewWhenTheTreeHasDoubled) {
  shortcuts_.Draw(1'000, {0, 1'000'000});
  EXPECT_FALSE(shortcuts_.AreOutgrown(1'999));
  const auto before = shortcuts_.PlaceOf(7);
  shortcuts_.Draw(1'999, {0, kMost});
  EXPECT_EQ(shortcuts_.PlaceOf(7).entry, before.entry);
  EXPECT_TRUE(shortcuts_.AreOutgrown(2'000));
  shortcuts_.Draw(2'000, {0, kMost});
  EXPECT_NE(shortcuts_.PlaceOf(7).entry, before.entry);
  before.entry->Store(&a_, 0);  // by a thread that found it before
  EXPECT_EQ(Find(7), nullptr);
}

}  // namespace
}  // namespace lodgekv
