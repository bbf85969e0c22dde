#include "index/node/separator_texts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace lodgekv {
namespace {

class SeparatorTextsTest : public ::testing::Test {
 protected:
  DramArena dram_;
  SeparatorTexts::Batch handed_on_;
  SeparatorTexts texts_{dram_, [this](SeparatorTexts::Batch gone) {
                          handed_on_.insert(handed_on_.end(), gone.begin(), gone.end());
                        }};
};

TEST_F(SeparatorTextsTest, SmallTextsTakeLittleSpace) {
  const uint64_t before = dram_.used_bytes();
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(texts_.New(std::string(20, 'x'))->view().size(), 20u);
  EXPECT_LE(dram_.used_bytes() - before, 1000 * 32 + 1024u);
}

TEST_F(SeparatorTextsTest, EmptyTextIsNobodys) {
  const SeparatorText* empty = texts_.New("");
  EXPECT_EQ(empty, SeparatorText::Empty());
  SeparatorTexts::Keep(empty);
  for (int i = 0; i < 1000; ++i) texts_.Release(empty);
  texts_.Discard(empty);
  EXPECT_TRUE(handed_on_.empty());
}

// A text that has an owner is not released; one that has none goes to hand_on, once, and is not
// reused before that.
TEST_F(SeparatorTextsTest, LastOwnerGivesUp) {
  std::vector<const SeparatorText*> texts;
  for (int i = 0; i < 1000; ++i) texts.push_back(texts_.New("text " + std::to_string(i)));
  for (const SeparatorText* text : texts) SeparatorTexts::Keep(text);
  for (const SeparatorText* text : texts) texts_.Release(text);
  EXPECT_TRUE(handed_on_.empty());
  for (const SeparatorText* text : texts) texts_.Release(text);
  EXPECT_GE(handed_on_.size(), 700u);
  const uint64_t used = dram_.used_bytes();
  for (int i = 0; i < 1000; ++i) (void)texts_.New("other " + std::to_string(i));
  EXPECT_GT(dram_.used_bytes(), used);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(texts[i]->view(), "text " + std::to_string(i));
}

// A thread that has not validated yet may read a text whose space was reused: whatever it reads
// there as the length fits the space.
TEST_F(SeparatorTextsTest, SpaceServesTextsOfItsSizeOnly) {
  std::mt19937_64 random(3);
  struct Place {
    const SeparatorText* text;
    size_t bytes;
  };
  const auto bytes_of = [](const SeparatorText* text) { return sizeof(*text) + text->length; };
  std::vector<Place> places;
  for (int i = 0; i < 3000; ++i) {
    const size_t most = i % 10 == 0 ? 9000 : 100;
    const SeparatorText* text = texts_.New(std::string(1 + random() % most, 'a'));
    places.push_back({text, bytes_of(text)});
  }
  for (int round = 0; round < 5; ++round) {
    for (Place& place : places) texts_.Discard(place.text);
    std::vector<Place> now;
    for (size_t i = 0; i < places.size(); ++i) {
      const size_t most = i % 10 == 0 ? 9000 : 100;
      const SeparatorText* text = texts_.New(std::string(1 + random() % most, 'b'));
      now.push_back({text, bytes_of(text)});
    }
    for (const Place& a : now) {
      for (const Place& b : places) {
        if (a.text != b.text) continue;
        // At most a quarter of the size, or a unit, between the largest and the least of a class.
        EXPECT_LE(a.bytes, b.bytes + std::max<size_t>(15, b.bytes / 4));
      }
    }
    places = now;
  }
}

TEST_F(SeparatorTextsTest, ComingAndGoingTakesNoMoreSpace) {
  uint64_t used = 0;
  for (int round = 0; round < 20; ++round) {
    std::vector<const SeparatorText*> texts;
    for (int i = 0; i < 1000; ++i) texts.push_back(texts_.New(std::string(1 + i % 90, 'c')));
    for (const SeparatorText* text : texts) texts_.Release(text);
    texts_.Free(std::exchange(handed_on_, {}));
    if (round == 1) used = dram_.used_bytes();
  }
  EXPECT_LE(dram_.used_bytes(), used * 12 / 10);
}

}  // namespace
}  // namespace lodgekv
