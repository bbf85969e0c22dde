// Where searches of the top layer begin.
#include "index/tlbtree/top_view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace lodgekv::tlbtree {
namespace {

constexpr uint64_t kMostWord = std::numeric_limits<uint64_t>::max();

// An array whose leaf nodes begin with the given words, as the background thread writes one.
class Array {
 public:
  Array(std::vector<uint64_t> begins, uint64_t leaf_nodes)
      : begins_(std::move(begins)), shape_(TopShape::Of(leaf_nodes)), content_(shape_.bytes / 64) {
    auto& header = *reinterpret_cast<media::TopHeader*>(content_.data());
    Set(header.leaf_nodes, leaf_nodes);
    Set(header.checksum, TopView::ChecksumOf(header, 0));
    EXPECT_TRUE(TopView::Read(reinterpret_cast<char*>(content_.data()), shape_.bytes, 0, &view_));
    for (unsigned level = 0; level < shape_.levels; ++level) {
      const uint64_t end = (shape_.children[level] + kTopFanout - 1) / kTopFanout * kTopFanout;
      for (uint64_t child = 0; child < end; ++child) {
        const uint64_t leaf = child * TopShape::LeavesBelow(shape_.levels, level);
        Set(view_.KeyAt(level, child), leaf < begins_.size() ? begins_[leaf] : kTopUnused);
      }
    }
    view_.DrawShortcuts();
  }

  const TopView& view() const { return view_; }
  const std::vector<uint64_t>& begins() const { return begins_; }
  // A spare leaf node is in use.
  void Begin(uint64_t word) {
    const uint64_t leaf = begins_.size();
    for (unsigned level = shape_.levels; level-- > 0;) {
      const uint64_t below = TopShape::LeavesBelow(shape_.levels, level);
      if (leaf % below == 0) Set(view_.KeyAt(level, leaf / below), word);
    }
    begins_.push_back(word);
  }
  // Whether the search for the word begins below the first node; where is checked.
  bool BeginsBelow(uint64_t word) const {
    const TopView::Node start = view_.StartFor(word);
    if (start.level == 0) {
      EXPECT_EQ(start.number, 0U);
      return false;
    }
    const auto above = std::upper_bound(begins_.begin(), begins_.end(), word);
    const uint64_t leaf = std::max<int64_t>(above - begins_.begin() - 1, 0);
    const uint64_t below = TopShape::LeavesBelow(shape_.levels, start.level - 1);
    EXPECT_EQ(start.number, leaf / below) << word;
    EXPECT_NE(begins_[start.number * below], word) << "tied";
    return true;
  }

 private:
  struct alignas(64) Line {
    char bytes[64];
  };
  static void Set(pmem::Word& word, uint64_t value) {
    std::memcpy(static_cast<void*>(&word), &value, sizeof(value));
  }
  std::vector<uint64_t> begins_;
  TopShape shape_;
  std::vector<Line> content_;
  TopView view_;
};

class TopViewTest : public ::testing::Test {
 protected:
  uint64_t Random() { return random_(); }
  // The first one is minus infinity.
  std::vector<uint64_t> RandomWords(size_t count) {
    std::vector<uint64_t> words{0};
    while (words.size() < count) words.push_back(Random());
    std::ranges::sort(words);
    return words;
  }
  // Of as many random words; those around the beginnings of nodes are looked at besides.
  double ShareBelow(const Array& array, int words) {
    for (const uint64_t word : array.begins()) {
      for (const uint64_t near : {word - 1, word, word + 1}) array.BeginsBelow(near);
    }
    int below = 0;
    for (int i = 0; i < words; ++i) below += array.BeginsBelow(Random()) ? 1 : 0;
    return below / static_cast<double>(words);
  }

 private:
  std::mt19937_64 random_{1};
};

TEST_F(TopViewTest, SearchesBeginAtTheLeafNode) {
  const Array array(RandomWords(5'000), 8'192);
  EXPECT_EQ(array.view().StartFor(array.begins()[100] + 1'000'000).level, array.view().levels());
  EXPECT_GT(ShareBelow(array, 100'000), 0.75);
}

TEST_F(TopViewTest, AboveManyLeafNodesTheyBeginALevelHigher) {
  const Array array(RandomWords(40'000), 65'536);
  EXPECT_EQ(array.view().StartFor(array.begins()[640] + 1'000'000).level,
            array.view().levels() - 1);
  EXPECT_GT(ShareBelow(array, 100'000), 0.75);
}

TEST_F(TopViewTest, AFewNodesHaveNoShortcuts) {
  const Array array(RandomWords(63), 128);
  EXPECT_EQ(ShareBelow(array, 1'000), 0);
  EXPECT_EQ(array.view().dram_bytes(), 0U);
}

TEST_F(TopViewTest, ManyNodesInOneRangeAreSearched) {
  std::vector<uint64_t> words{0};
  for (uint64_t i = 0; i < 3'000; ++i) words.push_back(1'000'000 + 2 * i);
  words.push_back(kMostWord / 2);
  words.push_back(kMostWord - 5);
  const Array array(words, 4'096);
  for (uint64_t word = 999'990; word < 1'006'010; ++word) EXPECT_FALSE(array.BeginsBelow(word));
  EXPECT_GT(ShareBelow(array, 1'000), 0.4);
}

TEST_F(TopViewTest, DenseWordsAreToldApart) {
  std::vector<uint64_t> words{0};
  for (uint64_t i = 0; i < 3'000; ++i) words.push_back(500 + 12 * i);
  const Array array(words, 4'096);
  int below = 0;
  for (uint64_t word = 500; word < 30'000; ++word) below += array.BeginsBelow(word) ? 1 : 0;
  EXPECT_GT(below, 25'000);
}

// As a damaged array may have them.
TEST(TopShortcutsTest, NodesThatDescendAreOfNoHelp) {
  const TopShortcuts shortcuts(64, {0, uint64_t{1} << 40});
  const auto nodes = [](auto) { return TopShortcuts::Nodes{.first = 63, .last = 3, .begin = 1}; };
  for (uint64_t word = 0; word < uint64_t{1} << 40; word += uint64_t{1} << 30)
    EXPECT_EQ(shortcuts.Find(word + 12'345, nodes), TopShortcuts::kNone);
}

TEST_F(TopViewTest, InADamagedArrayTheyBeginWithinIt) {
  std::vector<uint64_t> words = RandomWords(1'000);
  for (size_t i = 1; i + 1 < words.size(); i += 3) std::swap(words[i], words[words.size() - i]);
  words[500] = 0;
  const Array array(words, 1'000);
  for (int i = 0; i < 100'000; ++i) {
    const TopView::Node start = array.view().StartFor(Random());
    ASSERT_LT(start.number, start.level == 0 ? 1 : array.view().children(start.level - 1));
  }
}

// Their words lead to the last node, until then; some are in the range in which that one begins.
TEST_F(TopViewTest, SpareLeafNodesAreFoundOnceTheyBegin) {
  std::vector<uint64_t> words{0};
  for (uint64_t i = 1; i < 1'000; ++i) words.push_back((i << 53) + 12'345);
  Array array(words, 2'048);
  for (int i = 0; i < 1'000; ++i) {
    const uint64_t last = array.begins().back();
    const uint64_t step = uint64_t{1} << (i < 500 ? 30 : 52);
    for (int k = 0; k < 20; ++k) array.BeginsBelow(last + Random() % (2 * step));
    array.Begin(last + step);
    for (int k = 0; k < 20; ++k) array.BeginsBelow(last + Random() % (2 * step));
  }
}

}  // namespace
}  // namespace lodgekv::tlbtree
