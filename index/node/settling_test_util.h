// The tests of trees whose leaves are settled at their first touch (node/settle_at_touch.h), for
// each of them by a Subject:
//   Tree      a TestEngine
//   kKeys     so many make some thousand leaves
//   LeavesOf  the leaves of a Tree, from left to right
//   KeysOf    the keys of such a leaf, ascending
#pragma once

#include <string>
#include <vector>

#include "index/node/killed_tree_test_util.h"

namespace lodgekv {

template <class Subject>
class SettlingTest : public KilledTreeTest<typename Subject::Tree> {
 protected:
  void SetUp() override {
    for (uint64_t i = 0; i < Subject::kKeys; ++i) {
      ASSERT_EQ(this->tree_.Put(Text(i * 2), Text(i)), Outcome::kOk);
    }
    leaves_ = Subject::LeavesOf(this->tree_).size();
    ASSERT_GT(leaves_, 1000u);
  }

  uint64_t leaves_ = 0;
};
TYPED_TEST_SUITE_P(SettlingTest);

TYPED_TEST_P(SettlingTest, RecoveryFlushesNoLeaf) {
  const Cost before = ThreadCost();
  this->KillAndRecoverInPlace();
  EXPECT_LT((ThreadCost() - before).lines_flushed, this->leaves_);
}

TYPED_TEST_P(SettlingTest, AReadSettlesWhatItsAnswerDependsOn) {
  this->KillAndRecoverInPlace();
  const auto read = [&] { EXPECT_EQ(this->tree_.Get(Text(2)), Text(1)); };
  const uint64_t lines = this->LinesOf(read);
  EXPECT_GE(lines, 4u);
  EXPECT_LT(lines, this->leaves_ * 4);
  EXPECT_EQ(this->LinesOf(read), 0u);
  // Of an absent key as well, and of a scan.
  EXPECT_GT(this->LinesOf([&] { EXPECT_EQ(this->tree_.Get(Text(TypeParam::kKeys - 1)), "none"); }),
            0u);
  ScanOptions options;
  const std::string start = Text(TypeParam::kKeys * 2 - 40);
  options.start = start;
  uint64_t seen = 0;
  const auto scan = [&] {
    (void)this->tree_.engine().Scan(options, [&](const ScanItem&) { return ++seen > 0; });
  };
  EXPECT_GT(this->LinesOf(scan), 0u);
  EXPECT_EQ(seen, 20u);
}

// Whatever is touched is not left to the thread.
TYPED_TEST_P(SettlingTest, ReadsOfEveryKeyBringItToItsTotal) {
  this->KillAndRecoverInPlace();
  EXPECT_LT(this->State().done, this->State().total);
  for (uint64_t i = 0; i < TypeParam::kKeys; ++i) ASSERT_EQ(this->tree_.Get(Text(i * 2)), Text(i));
  EXPECT_EQ(this->State().done, this->State().total);
  EXPECT_FALSE(this->State().finished);
}

TYPED_TEST_P(SettlingTest, WritesGoOnMeanwhileAndBringItToItsEnd) {
  this->KillAndRecoverInPlace();
  const uint64_t total = this->State().total;
  EXPECT_GT(total, this->leaves_ / 4);
  EXPECT_EQ(this->State().phase, "settling");
  uint64_t writes = 0;
  for (; writes < 100'000 && !this->State().finished; ++writes) {
    ASSERT_EQ(this->tree_.Put(Text(writes * 2 + 1), Text(writes)), Outcome::kOk);
    if (writes % 3 != 0) continue;
    ASSERT_EQ(this->tree_.Delete(Text(writes * 2)), Outcome::kOk);
  }
  EXPECT_TRUE(this->State().finished);
  ASSERT_TRUE(this->State().report.has_value());
  EXPECT_EQ(this->State().report->keys, TypeParam::kKeys);
  this->tree_.ExpectSound();
  for (uint64_t i = 0; i < writes; ++i) ASSERT_EQ(this->tree_.Get(Text(i * 2 + 1)), Text(i));
}

TYPED_TEST_P(SettlingTest, TheBackgroundDoesItWithoutAWrite) {
  this->ExpectThatTheBackgroundEndsIt();
  EXPECT_EQ(this->LinesOf([&] { EXPECT_EQ(this->tree_.Get(Text(2)), Text(1)); }), 0u);
}

TYPED_TEST_P(SettlingTest, CloseBringsItToItsEnd) { this->ExpectThatCloseEndsIt(); }

TYPED_TEST_P(SettlingTest, NothingIsLeftOfASmallTree) { this->ExpectNoRestOfASmallTree(); }

REGISTER_TYPED_TEST_SUITE_P(SettlingTest, RecoveryFlushesNoLeaf, AReadSettlesWhatItsAnswerDependsOn,
                            ReadsOfEveryKeyBringItToItsTotal, WritesGoOnMeanwhileAndBringItToItsEnd,
                            TheBackgroundDoesItWithoutAWrite, CloseBringsItToItsEnd,
                            NothingIsLeftOfASmallTree);

// The range of a removed leaf may go to its right neighbour, which then answers for keys of two
// stretches. Those that were always its own depend on the leaf after it, too.
template <class Subject>
class TakenOverRangeTest : public SettlingTest<Subject> {
 protected:
  void SetUp() override {
    SettlingTest<Subject>::SetUp();
    this->KillAndRecoverInPlace();
    // Far from where the steps of the writes have come to.
    const auto leaves = Subject::LeavesOf(this->tree_);
    for (size_t i = leaves.size() - 300; i + 3 < leaves.size() && taken_over_ == 0; ++i) {
      const std::vector<uint64_t> keys = Subject::KeysOf(leaves[i]);
      const uint64_t own_end = Subject::KeysOf(leaves[i + 1]).back() + 1;
      for (const uint64_t key : keys) ASSERT_EQ(this->tree_.Delete(Text(key)), Outcome::kOk);
      const size_t before = Subject::KeysOf(leaves[i + 1]).size();
      ASSERT_EQ(this->tree_.Put(Text(keys[0]), Text(1)), Outcome::kOk);
      if (Subject::KeysOf(leaves[i + 1]).size() == before) continue;
      taken_over_ = keys[0];
      absent_ = own_end;
    }
    ASSERT_NE(taken_over_, 0u);
  }
  // What was answered for `absent_` is durable: nothing is left to be settled for it.
  void ExpectAbsentKeyIsSettled() {
    EXPECT_EQ(this->LinesOf([&] { EXPECT_EQ(this->tree_.Get(Text(absent_)), "none"); }), 0u);
  }

  uint64_t taken_over_ = 0;  // a key that the right neighbour has taken over
  uint64_t absent_ = 0;      // above all others of that leaf, and its own
};
TYPED_TEST_SUITE_P(TakenOverRangeTest);

TYPED_TEST_P(TakenOverRangeTest, AScanSettlesAllOfItsLeaf) {
  for (const bool reverse : {false, true}) {
    ScanOptions options;
    const std::string start = Text(this->taken_over_);
    const std::string end = Text(this->absent_ + 1);
    options.start = start;
    options.end = end;
    options.reverse = reverse;
    ASSERT_EQ(this->tree_.engine().Scan(options, [](const ScanItem&) { return true; }),
              Outcome::kOk);
    this->ExpectAbsentKeyIsSettled();
  }
}

TYPED_TEST_P(TakenOverRangeTest, AGroupSettlesWhatEachOfItsKeysDependsOn) {
  const std::string first = Text(this->taken_over_);
  const std::string second = Text(this->absent_);
  const std::string value = Text(7);
  const std::vector<WriteOp> ops = {{.kind = WriteKind::kPut, .key = first, .value = value},
                                    {.kind = WriteKind::kDelete, .key = second}};
  ASSERT_EQ(this->tree_.Write(ops), Outcome::kOk);
  this->ExpectAbsentKeyIsSettled();
}

REGISTER_TYPED_TEST_SUITE_P(TakenOverRangeTest, AScanSettlesAllOfItsLeaf,
                            AGroupSettlesWhatEachOfItsKeysDependsOn);

}  // namespace lodgekv
