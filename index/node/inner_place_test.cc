// What a walk over the lower nodes fetches ahead is what it will come to.
#include "index/node/inner_place.h"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "index/node/codec.h"
#include "index/node/inner_tree.h"

namespace lodgekv {
namespace {

struct Leaf {
  VersionLock lock;
  uint64_t low;
  void PrefetchForRead() const {}
  void PrefetchForWrite() const {}
};

using Tree = InnerTree<Fixed64Codec, Leaf>;

class InnerPlaceTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kLeaves = 2000;
  static constexpr int kAhead = 3;

  InnerPlaceTest() {
    std::vector<Tree::Child> children;
    for (uint64_t i = 0; i < kLeaves; ++i) {
      leaves_.emplace_back().low = 10 * i;
      children.push_back({10 * i, &leaves_.back()});
    }
    tree_.Build(children);
  }

  Tree::Place PlaceOf(uint64_t leaf) const {
    const auto key = Fixed64Codec::KeyOfWord(10 * leaf + 5);
    uint64_t snapshot;
    Tree::Place place;
    EXPECT_EQ(tree_.DescendToPlace(&key, Tree::Seek::kCovering, &snapshot, &place)->low, 10 * leaf);
    return place;
  }

  DramArena dram_;
  SeparatorTexts texts_{dram_, [](SeparatorTexts::Batch) {}};
  Tree tree_{dram_, texts_};
  std::deque<Leaf> leaves_;
};

TEST_F(InnerPlaceTest, NeighboursGoOnUnderTheNextParent) {
  unsigned unknown = 0;
  for (uint64_t i = 0; i < kLeaves; ++i) {
    const Tree::Place place = PlaceOf(i);
    for (int distance = -kAhead; distance <= kAhead; ++distance) {
      const Leaf* leaf = tree_.NeighbourAt(place, distance);
      if (leaf == nullptr) {
        ++unknown;
        continue;
      }
      ASSERT_EQ(leaf->low, 10 * (i + static_cast<uint64_t>(distance))) << i << ", " << distance;
    }
  }
  // Only where the parent's own parent ends, too: four of these have six to either side.
  EXPECT_LE(unknown, 4 * 2 * 6u);
}

TEST_F(InnerPlaceTest, StandsAtTheEndsOfTheTree) {
  EXPECT_EQ(tree_.NeighbourAt(PlaceOf(0), -1), nullptr);
  EXPECT_EQ(tree_.NeighbourAt(PlaceOf(kLeaves - 1), 1), nullptr);
  EXPECT_EQ(PlaceOf(0).left, nullptr);
  EXPECT_EQ(PlaceOf(kLeaves - 1).right, nullptr);
}

}  // namespace
}  // namespace lodgekv
