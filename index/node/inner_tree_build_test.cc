// Trees built in bulk: whole, in pieces, on several threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "index/node/codec.h"
#include "index/node/inner_tree.h"

namespace lodgekv {
namespace {

struct Leaf {
  VersionLock lock;
  size_t number;
  void PrefetchForRead() const {}
  void PrefetchForWrite() const {}
};

Fixed64Codec::Separator SeparatorOf(SeparatorTexts&, const std::string& text, Fixed64Codec*) {
  return KeyWord(text, 0);
}
BytesCodec::Separator SeparatorOf(SeparatorTexts& texts, const std::string& text, BytesCodec*) {
  return texts.New(text);
}

// Ascending; the first one is minus infinity.
std::vector<std::string> Lows(size_t count) {
  std::vector<std::string> lows = {std::string()};
  for (size_t i = 1; i < count; ++i) {
    char text[16];
    std::snprintf(text, sizeof(text), "k%07zu", 3 * i);
    lows.emplace_back(text);
  }
  return lows;
}

template <class C>
class BuiltTree {
 public:
  using Tree = InnerTree<C, Leaf>;

  explicit BuiltTree(size_t count) : lows_(Lows(count)) {
    for (size_t i = 0; i < count; ++i) {
      leaves_.emplace_back().number = i;
      const auto low =
          i == 0 ? C::MinusInfinity() : SeparatorOf(texts_, lows_[i], static_cast<C*>(nullptr));
      children_.push_back({low, &leaves_.back()});
    }
  }

  void Build(unsigned threads) { tree_.Build(children_, threads); }
  // In runs of any length, whose first separators are unknown at first.
  void BuildOfRuns(uint64_t seed, unsigned threads) {
    std::mt19937_64 random(seed);
    std::vector<typename Tree::Nodes> pieces;
    for (size_t begin = 0; begin < children_.size();) {
      const size_t most = random() % 2 == 0 ? 3 : 700;
      const size_t count = std::min(children_.size() - begin, 1 + random() % most);
      std::vector<typename Tree::Child> run(
          children_.begin() + static_cast<ptrdiff_t>(begin),
          children_.begin() + static_cast<ptrdiff_t>(begin + count));
      run[0].low = {};
      pieces.push_back(tree_.MakeParents(run));
      pieces.back().front().low = children_[begin].low;
      begin += count;
    }
    tree_.BuildOver(std::move(pieces), threads);
  }

  void ExpectAll() const {
    uint64_t snapshot;
    for (size_t i = 0; i < lows_.size(); ++i) {
      for (const char* more : {"", "0"}) {
        const std::string text = lows_[i] + more;
        ASSERT_EQ(tree_.Descend(C::MakeKey(text), &snapshot)->number, i) << text;
      }
    }
    ASSERT_EQ(tree_.DescendLast(&snapshot)->number, lows_.size() - 1);
  }
  void ExpectBorders(size_t wanted) const {
    const auto borders = tree_.Borders(wanted);
    ASSERT_GE(borders.size() + 1, std::min(wanted, lows_.size()));
    std::vector<std::string> texts;
    for (const auto border : borders) texts.push_back(C::TextOf(border));
    EXPECT_TRUE(std::is_sorted(texts.begin(), texts.end()));
    for (const std::string& text : texts) {
      EXPECT_TRUE(std::binary_search(lows_.begin(), lows_.end(), text)) << text;
    }
  }
  uint64_t nodes() const { return tree_.node_count(); }

 private:
  const std::vector<std::string> lows_;
  DramArena dram_;
  SeparatorTexts texts_{dram_};
  Tree tree_{dram_, texts_};
  std::deque<Leaf> leaves_;
  std::vector<typename Tree::Child> children_;
};

constexpr size_t kSizes[] = {1, 2, 24, 25, 577, 4096, 4097, 30000};

template <class C>
void SameOnAnyNumberOfThreads() {
  for (const size_t size : kSizes) {
    uint64_t nodes = 0;
    for (const unsigned threads : {1u, 2u, 5u}) {
      SCOPED_TRACE(std::to_string(size) + " children, threads: " + std::to_string(threads));
      BuiltTree<C> tree(size);
      tree.Build(threads);
      ASSERT_NO_FATAL_FAILURE(tree.ExpectAll());
      for (const size_t wanted : {1, 2, 20, 1000}) {
        ASSERT_NO_FATAL_FAILURE(tree.ExpectBorders(wanted));
      }
      EXPECT_EQ(tree.nodes(), threads == 1 ? tree.nodes() : nodes);
      nodes = tree.nodes();
    }
  }
}

TEST(InnerTreeBuildTest, SameOnAnyNumberOfThreads) {
  SameOnAnyNumberOfThreads<Fixed64Codec>();
  SameOnAnyNumberOfThreads<BytesCodec>();
}

template <class C>
void OfRunsOfAnyLength() {
  for (const size_t size : kSizes) {
    for (const uint64_t seed : {1, 2, 3}) {
      SCOPED_TRACE(std::to_string(size) + " children, seed " + std::to_string(seed));
      BuiltTree<C> tree(size);
      tree.BuildOfRuns(seed, 2);
      ASSERT_NO_FATAL_FAILURE(tree.ExpectAll());
    }
  }
}

TEST(InnerTreeBuildTest, OfRunsOfAnyLength) {
  OfRunsOfAnyLength<Fixed64Codec>();
  OfRunsOfAnyLength<BytesCodec>();
}

}  // namespace
}  // namespace lodgekv
