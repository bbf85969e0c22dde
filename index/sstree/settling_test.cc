// What recovery leaves to a first touch and to the background (node/rest_of_recovery.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "index/pmem/testing/silent_tracer.h"
#include "index/sstree/sstree_test_util.h"

namespace lodgekv::sstree {
namespace {

constexpr unsigned kKeys = 40'000;

class SettlingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (uint64_t i = 0; i < kKeys; ++i) {
      ASSERT_EQ(tree_.Put(Text(i * 2), Text(i)), Outcome::kOk);
    }
    leaves_ = tree_.Leaves().size();
    ASSERT_GT(leaves_, 1000u);
  }
  // Nothing is done in the background: only what is touched is settled.
  void KillAndRecoverInPlace() {
    tree_.arena().options().tracer = &tracer_;
    tree_.KillAndRecover();
    tree_.arena().options().tracer = nullptr;
    ASSERT_FALSE(State().finished);
  }
  RecoveryState State() { return tree_.engine().GetRecoveryState(); }
  uint64_t LinesOf(auto call) { return tree_.EffectOf(call).cost.lines_flushed; }

  pmem::SilentTracer tracer_;
  TestTree tree_{KeyFormat::kFixed64};
  uint64_t leaves_ = 0;
};

TEST_F(SettlingTest, RecoveryFlushesNoLeaf) {
  const Cost before = ThreadCost();
  KillAndRecoverInPlace();
  EXPECT_LT((ThreadCost() - before).lines_flushed, leaves_);
}

TEST_F(SettlingTest, AReadSettlesWhatItsAnswerDependsOn) {
  KillAndRecoverInPlace();
  const auto read = [&] { EXPECT_EQ(tree_.Get(Text(2)), Text(1)); };
  const uint64_t lines = LinesOf(read);
  EXPECT_GE(lines, 4u);
  EXPECT_LT(lines, leaves_ * 4);
  EXPECT_EQ(LinesOf(read), 0u);
  // Of an absent key as well, and of a scan.
  EXPECT_GT(LinesOf([&] { EXPECT_EQ(tree_.Get(Text(kKeys - 1)), "none"); }), 0u);
  ScanOptions options;
  const std::string start = Text(kKeys * 2 - 40);
  options.start = start;
  uint64_t seen = 0;
  const auto scan = [&] {
    (void)tree_.engine().Scan(options, [&](const ScanItem&) { return ++seen > 0; });
  };
  EXPECT_GT(LinesOf(scan), 0u);
  EXPECT_EQ(seen, 20u);
}

// A split may have copied the leaf's pairs from the one to its left, whose commit is perhaps not
// durable: a delete here could then be undone there.
TEST_F(SettlingTest, ATouchSettlesTheLeafToTheLeft) {
  KillAndRecoverInPlace();
  const std::vector<ListOfSubnodes> leaves = tree_.SortedLeaves();
  const size_t i = leaves.size() / 2;
  const std::string key = Text(TestTree::KeysOf(leaves[i]).front());
  const std::string far = Text(TestTree::KeysOf(leaves[i / 2]).front());
  const auto line_count = [&](const std::string& k) {
    return LinesOf([&] { EXPECT_NE(tree_.Get(k), "none"); });
  };
  EXPECT_GE(line_count(key), (leaves[i].size() + leaves[i - 1].size()) * kSubnodeLines);
  EXPECT_GT(line_count(far), 0u);
}

// Whatever is touched is not left to the thread.
TEST_F(SettlingTest, ReadsOfEveryKeyBringItToItsTotal) {
  KillAndRecoverInPlace();
  EXPECT_LT(State().done, State().total);
  for (uint64_t i = 0; i < kKeys; ++i) ASSERT_EQ(tree_.Get(Text(i * 2)), Text(i));
  EXPECT_EQ(State().done, State().total);
  EXPECT_FALSE(State().finished);
}

TEST_F(SettlingTest, WritesGoOnMeanwhileAndBringItToItsEnd) {
  KillAndRecoverInPlace();
  const uint64_t total = State().total;
  EXPECT_GT(total, leaves_ / 4);
  EXPECT_EQ(State().phase, "settling");
  uint64_t writes = 0;
  for (; writes < 100'000 && !State().finished; ++writes) {
    ASSERT_EQ(tree_.Put(Text(writes * 2 + 1), Text(writes)), Outcome::kOk);
    if (writes % 3 != 0) continue;
    ASSERT_EQ(tree_.Delete(Text(writes * 2)), Outcome::kOk);
  }
  EXPECT_TRUE(State().finished);
  ASSERT_TRUE(State().report.has_value());
  EXPECT_EQ(State().report->keys, kKeys);
  tree_.ExpectSound();
  for (uint64_t i = 0; i < writes; ++i) ASSERT_EQ(tree_.Get(Text(i * 2 + 1)), Text(i));
}

TEST_F(SettlingTest, TheBackgroundDoesItWithoutAWrite) {
  tree_.KillAndRecover();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!State().finished && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ASSERT_TRUE(State().finished);
  EXPECT_EQ(State().error, absl::OkStatus());
  ASSERT_TRUE(State().report.has_value());
  EXPECT_FALSE(tree_.pool().finding_space());
  tree_.ExpectSound();
  EXPECT_EQ(LinesOf([&] { EXPECT_EQ(tree_.Get(Text(2)), Text(1)); }), 0u);
}

// The range of a removed leaf may go to its right neighbour, which then answers for keys of two
// stretches. Those that were always its own depend on the leaf after it, too.
class TakenOverRangeTest : public SettlingTest {
 protected:
  void SetUp() override {
    SettlingTest::SetUp();
    KillAndRecoverInPlace();
    // Far from where the steps of the writes have come to.
    const std::vector<ListOfSubnodes> leaves = tree_.SortedLeaves();
    for (size_t i = leaves_ - 300; i + 3 < leaves_ && taken_over_ == 0; ++i) {
      const std::vector<uint64_t> keys = TestTree::KeysOf(leaves[i]);
      const uint64_t own_end = TestTree::KeysOf(leaves[i + 1]).back() + 1;
      for (const uint64_t key : keys) ASSERT_EQ(tree_.Delete(Text(key)), Outcome::kOk);
      const size_t before = TestTree::KeysOf(leaves[i + 1]).size();
      ASSERT_EQ(tree_.Put(Text(keys[0]), Text(1)), Outcome::kOk);
      if (TestTree::KeysOf(leaves[i + 1]).size() == before) continue;
      taken_over_ = keys[0];
      absent_ = own_end;
    }
    ASSERT_NE(taken_over_, 0u);
  }
  // What was answered for `absent_` is durable: nothing is left to be settled for it.
  void ExpectAbsentKeyIsSettled() {
    EXPECT_EQ(LinesOf([&] { EXPECT_EQ(tree_.Get(Text(absent_)), "none"); }), 0u);
  }

  uint64_t taken_over_ = 0;  // a key that the right neighbour has taken over
  uint64_t absent_ = 0;      // above all others of that leaf, and its own
};

TEST_F(TakenOverRangeTest, AScanSettlesAllOfItsLeaf) {
  for (const bool reverse : {false, true}) {
    ScanOptions options;
    const std::string start = Text(taken_over_);
    const std::string end = Text(absent_ + 1);
    options.start = start;
    options.end = end;
    options.reverse = reverse;
    ASSERT_EQ(tree_.engine().Scan(options, [](const ScanItem&) { return true; }), Outcome::kOk);
    ExpectAbsentKeyIsSettled();
  }
}

TEST_F(TakenOverRangeTest, AGroupSettlesWhatEachOfItsKeysDependsOn) {
  const std::string first = Text(taken_over_);
  const std::string second = Text(absent_);
  const std::string value = Text(7);
  const std::vector<WriteOp> ops = {{.kind = WriteKind::kPut, .key = first, .value = value},
                                    {.kind = WriteKind::kDelete, .key = second}};
  ASSERT_EQ(tree_.Write(ops), Outcome::kOk);
  ExpectAbsentKeyIsSettled();
}

TEST_F(SettlingTest, CloseBringsItToItsEnd) {
  KillAndRecoverInPlace();
  EXPECT_EQ(tree_.engine().Close(), absl::OkStatus());
  EXPECT_TRUE(State().finished);
  EXPECT_FALSE(tree_.pool().finding_space());
}

// A few leaves are not worth a thread.
TEST(SmallTreeSettlingTest, IsOverWhenRecoveryReturns) {
  TestTree tree(KeyFormat::kFixed64);
  for (uint64_t i = 0; i < 100; ++i) ASSERT_EQ(tree.Put(Text(i), Text(i)), Outcome::kOk);
  tree.KillAndRecover();
  EXPECT_TRUE(tree.engine().GetRecoveryState().finished);
  EXPECT_FALSE(tree.engine().GetRecoveryState().report.has_value());
  EXPECT_FALSE(tree.pool().finding_space());
}

}  // namespace
}  // namespace lodgekv::sstree
