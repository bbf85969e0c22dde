// Hints of blocks, alone and beside the children of inner nodes.
#include "index/node/block_hint.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <vector>

#include "index/node/codec.h"
#include "index/node/inner_tree.h"
#include "index/node/inner_tree_shrink.h"

namespace lodgekv {
namespace {

constexpr pmem::Offset kTiB = uint64_t{1} << 40;

TEST(BlockHintTest, HasTheLastBlockNoted) {
  uint32_t number = 0;
  const BlockHint hint(&number);
  EXPECT_EQ(hint.block(), 0u);
  hint.Note(kTiB - 256);
  EXPECT_EQ(BlockHint(&number).block(), kTiB - 256);
  hint.Note(512);
  EXPECT_EQ(hint.block(), 512u);
  hint.Note(kTiB);  // its number has 33 bits
  EXPECT_EQ(hint.block(), 0u);
}

TEST(BlockHintTest, OfNothingKnowsNothing) {
  const BlockHint none;
  none.Note(256);
  EXPECT_EQ(none.block(), 0u);
}

class BlockHintsTest : public ::testing::Test {
 protected:
  BlockHintsTest() {
    for (unsigned i = 0; i < 4; ++i) hints_.At(i).Note(256 * (i + 1));
  }
  static std::vector<pmem::Offset> BlocksOf(const BlockHints<6>& hints) {
    std::vector<pmem::Offset> blocks;
    for (unsigned i = 0; i < 6; ++i) blocks.push_back(hints.At(i).block() / 256);
    return blocks;
  }
  using Blocks = std::vector<pmem::Offset>;

  BlockHints<6> hints_;
};

TEST_F(BlockHintsTest, MakeRoomForOneMore) {
  hints_.Insert(1, 4);
  EXPECT_EQ(BlocksOf(hints_), (Blocks{1, 0, 2, 3, 4, 0}));
  hints_.Insert(5, 5);
  EXPECT_EQ(BlocksOf(hints_), (Blocks{1, 0, 2, 3, 4, 0}));
}

TEST_F(BlockHintsTest, CloseUpWhereOneGoes) {
  hints_.Erase(1, 4);
  EXPECT_EQ(hints_.At(0).block(), 256u);
  EXPECT_EQ(hints_.At(1).block(), 768u);
  EXPECT_EQ(hints_.At(2).block(), 1024u);
}

TEST_F(BlockHintsTest, GoToAnotherNode) {
  BlockHints<6> right;
  hints_.Move(1, 4, right);
  EXPECT_EQ(BlocksOf(right), (Blocks{2, 3, 4, 0, 0, 0}));
}

struct Below {
  VersionLock lock;
  uint64_t low;
  uint32_t number;
  void PrefetchForRead() const {}
  void PrefetchForWrite() const {}
};
struct HintedAccess : OwnLock<Below> {
  static constexpr bool kHinted = true;
  HintedAccess(std::vector<pmem::Offset>* to, std::deque<Below>* nodes)
      : fetched(to), belows(nodes) {}
  // A node's number is one more than its place among all, as it is never 0.
  InnerChild ChildOf(const Below* below) const { return InnerChild::OfNumber(below->number, 0); }
  Below* BelowOf(const InnerChild& child) const { return &(*belows)[child.number() - 1]; }
  void PrefetchHinted(pmem::Offset block) const { fetched->push_back(block); }
  std::vector<pmem::Offset>* fetched;
  std::deque<Below>* belows;
};

// Each node's hint is its low bound, times 256.
class HintedTreeTest : public ::testing::Test {
 protected:
  using C = Fixed64Codec;
  using Tree = InnerTree<C, Below, HintedAccess>;

  HintedTreeTest() {
    const Tree::Child first{C::MinusInfinity(), New(0)};
    tree_.Build({&first, 1});
  }
  Below* New(uint64_t low) {
    belows_.emplace_back();
    belows_.back().low = low;
    belows_.back().number = static_cast<uint32_t>(belows_.size());
    return nodes_[low] = &belows_.back();
  }
  void Insert(uint64_t low) {
    const C::Key key = C::KeyOfWord(low);
    Tree::Node* parent = tree_.LockParent(key);
    const Tree::Child child{low, New(low)};
    tree_.InsertAndUnlock(parent, key, {&child, 1});
  }
  void Remove(uint64_t low) {
    const C::Key key = C::KeyOfWord(low);
    Tree::Node* parent;
    if (tree_.LockForRemoval(key, nodes_[low], Tree::Heir::kLeft, &parent) != Tree::Attempt::kDone)
      return;
    tree_.RemoveAndUnlock(parent, key);
    nodes_.erase(low);
  }
  BlockHint HintOf(uint64_t low) {
    uint64_t snapshot;
    BlockHint hint;
    fetched_.clear();
    const Below* found = tree_.DescendForWrite(C::KeyOfWord(low), &snapshot, nullptr, &hint);
    EXPECT_EQ(found->low, low);
    EXPECT_EQ(fetched_, std::vector{hint.block()});
    return hint;
  }
  void NoteAll() {
    for (const auto& [low, node] : nodes_) HintOf(low).Note(256 * low);
  }
  // Of the nodes, those whose hint is another's; all others have theirs, or none.
  size_t CountWrong() {
    size_t wrong = 0;
    for (const auto& [low, node] : nodes_) {
      const pmem::Offset block = HintOf(low).block();
      if (block != 0 && block != 256 * low) ++wrong;
    }
    return wrong;
  }
  size_t CountKnown() {
    size_t known = 0;
    for (const auto& [low, node] : nodes_) known += HintOf(low).block() != 0 ? 1 : 0;
    return known;
  }

  DramArena arena_;
  SeparatorTexts texts_{arena_, [](SeparatorTexts::Batch) {}};
  std::deque<Below> belows_;
  std::map<uint64_t, Below*> nodes_;
  std::vector<pmem::Offset> fetched_;
  Tree tree_{arena_, texts_, HintedAccess(&fetched_, &belows_)};
  std::mt19937_64 random_{1};
};

TEST_F(HintedTreeTest, EveryDescentFetchesWhatIsHinted) {
  for (uint64_t low = 1; low < 200; ++low) Insert(low);
  NoteAll();
  fetched_.clear();
  uint64_t snapshot;
  (void)tree_.Descend(C::KeyOfWord(77), &snapshot);
  EXPECT_EQ(fetched_, std::vector<pmem::Offset>{256 * 77});
  fetched_.clear();
  const C::Key keys[] = {C::KeyOfWord(3), C::KeyOfWord(150)};
  tree_.DescendEach<SearchByPointer>(
      2, [&](size_t i) -> const C::Key& { return keys[i]; }, [](size_t, Below*, uint64_t) {});
  EXPECT_EQ(fetched_, (std::vector<pmem::Offset>{256 * 3, 256 * 150}));
}

TEST_F(HintedTreeTest, HintsStayWithTheirNodesWhileOthersComeIn) {
  for (int i = 0; i < 2'000; ++i) {
    Insert(random_() >> 40 | 1);
    if (i % 100 == 0) NoteAll();
  }
  EXPECT_GE(CountKnown(), nodes_.size() - 100);  // all but those that came in last
  EXPECT_EQ(CountWrong(), 0u);
}

TEST_F(HintedTreeTest, HintsStayWithTheirNodesWhileOthersGo) {
  for (int i = 0; i < 500; ++i) Insert(random_() >> 40 | 1);
  NoteAll();
  for (int i = 0; i < 100; ++i) {
    auto at = nodes_.begin();
    std::advance(at, 1 + random_() % (nodes_.size() - 1));
    Remove(at->first);
  }
  EXPECT_LT(nodes_.size(), 450u);
  EXPECT_EQ(CountWrong(), 0u);
  EXPECT_GE(CountKnown(), nodes_.size() - 1);
}

}  // namespace
}  // namespace lodgekv
