// Damaged leaves: what Check reports about a tree in use, and what recovery reports about a pool.
#include <gtest/gtest.h>

#include <string>

#include "index/lodgetree/lodgetree_test_util.h"

namespace lodgekv::lodgetree {
namespace {

constexpr uint64_t kKeys = 300;

std::string KeyOf(uint64_t n) { return "k" + std::to_string(n); }

class DamageTest : public ::testing::Test {
 protected:
  // Short pairs only, so that every slot holds its pair.
  DamageTest() {
    for (uint64_t n = 0; n < kKeys; ++n) EXPECT_EQ(tree_.Put(KeyOf(n), "v"), Outcome::kOk);
    const auto leaves = tree_.Leaves();
    EXPECT_GT(leaves.size(), 5u);
    leaf_ = const_cast<media::Leaf*>(leaves[2]);
    slot_ = static_cast<unsigned>(std::countr_zero(leaf_->commit.Load()));
  }

  void Store(pmem::Word& word, uint64_t value) { tree_.pool().medium().Store(word, value); }
  void Flip(pmem::Word& word, unsigned bit) { Store(word, word.Load() ^ uint64_t{1} << bit); }
  uint64_t Problems() { return tree_.engine().Check().problem_count; }

  TestTree tree_{KeyFormat::kBytes, {}, true};
  media::Leaf* leaf_;
  unsigned slot_;  // a valid one
};

TEST_F(DamageTest, CheckFindsEachKind) {
  ASSERT_EQ(Problems(), 0u);
  const auto expect_found = [&](pmem::Word& word, unsigned bit, const char* what) {
    Flip(word, bit);
    EXPECT_GT(Problems(), 0u) << what;
    Flip(word, bit);
    EXPECT_EQ(Problems(), 0u) << what;
  };
  expect_found(leaf_->commit, slot_, "a slot that counts no more");
  expect_found(leaf_->commit, 51, "use_n");
  expect_found(leaf_->watermark, 60, "a watermark of the future");
  expect_found(leaf_->next[(leaf_->commit.Load() & media::kUseN) != 0 ? 1 : 0], 9, "the chain");
  expect_found(leaf_->fingerprints[slot_ / 8], 8 * (slot_ % 8), "a fingerprint");
  expect_found(leaf_->low[0], 56, "the low fence");
  expect_found(leaf_->slots[slot_].key, 56, "a key");
  expect_found(leaf_->slots[slot_].value, 47, "a value");
}

TEST_F(DamageTest, AReadOfADamagedShortPairSaysSo) {
  const uint64_t key_word = leaf_->slots[slot_].key.Load();
  std::string key(8, '\0');
  StoreBigEndian(key_word, key.data());
  key.resize(key.find('\0'));
  ASSERT_EQ(tree_.Get(key), "v");
  Flip(leaf_->slots[slot_].value, 47);
  const std::string_view view = key;
  ReadResult result;
  EXPECT_EQ(tree_.engine().Read({&view, 1}, {&result, 1}, {}), Outcome::kDataLoss);
}

// Of a log that holds what is buffered. The other copy still says all, so nothing is lost; but a
// second flip could hide the log.
TEST(DamagedLogTest, ADamagedCopyOfAHeaderIsReportedAndWrittenAgain) {
  TestTree tree(KeyFormat::kFixed64);
  for (uint64_t n = 0; n < 2'000; ++n) ASSERT_EQ(tree.Put(Scattered(n), Text(n)), Outcome::kOk);
  tree.KillAndRecover();  // what is open is closed
  EXPECT_EQ(tree.recovery().repairs, 0u);
  // Of the first log of each chunk.
  const auto flip_words = [&tree](size_t word) {
    for (const pmem::Chunk& chunk : tree.pool().Chunks()) {
      if (chunk.use != pmem::ChunkUse::kLogs) continue;
      *tree.pool().At<uint64_t>(chunk.begin + word * 8) ^= 1;
    }
  };
  const auto in_passing = [&tree] {
    return tree.engine().CheckInPassing([] { return true; }).problem_count;
  };
  for (const size_t word : {size_t{0}, size_t{5}}) {
    flip_words(word);
    const uint64_t problems = tree.engine().Check().problem_count;
    EXPECT_GT(problems, 0u);
    EXPECT_EQ(in_passing(), problems);
    tree.KillAndRecover();
    EXPECT_EQ(tree.recovery().repairs, problems);
    tree.ExpectSound();
    EXPECT_EQ(in_passing(), 0u);
    tree.KillAndRecover();
    EXPECT_EQ(tree.recovery().repairs, 0u);
    for (uint64_t n = 0; n < 2'000; ++n) ASSERT_EQ(tree.Get(Scattered(n)), Text(n));
  }
}

// The damaged record belongs to a pair in a leaf; the damage is in the key.
class DamagedRecordTest : public ::testing::Test {
 protected:
  DamagedRecordTest() {
    for (uint64_t n = 0; n < 100; ++n) EXPECT_EQ(tree_.Put(KeyAt(n), "value"), Outcome::kOk);
    const media::Leaf* leaf = tree_.Leaves()[1];
    const auto slot = static_cast<unsigned>(std::countr_zero(leaf->commit.Load()));
    const pmem::Offset record = BytesCodec::RecordOf(leaf->slots[slot].value.Load());
    key_ = ViewRecord(tree_.pool(), record).key;
    *tree_.pool().At<uint8_t>(record + 25) ^= 1;
  }

  static std::string KeyAt(uint64_t n) { return "account/" + std::to_string(1000 + n); }
  Outcome Read() {
    const std::string_view view = key_;
    ReadResult result;
    const Outcome outcome = tree_.engine().Read({&view, 1}, {&result, 1}, {});
    return outcome == Outcome::kOk && !result.found ? Outcome::kConditionFailed : outcome;
  }
  void FlushAll() {
    EXPECT_TRUE(tree_.engine().Close().ok());  // flushes; the engine can still be used
  }

  TestTree tree_{KeyFormat::kBytes};
  std::string key_;
};

TEST_F(DamagedRecordTest, ReadAndDeleteSaySo) {
  EXPECT_EQ(Read(), Outcome::kDataLoss);
  EXPECT_EQ(tree_.Delete(key_), Outcome::kDataLoss);
  EXPECT_EQ(Read(), Outcome::kDataLoss);
  tree_.KillAndRecover();
  EXPECT_EQ(Read(), Outcome::kDataLoss);
}

TEST_F(DamagedRecordTest, APutTakesItsPlaceAndADeleteThenHolds) {
  EXPECT_EQ(tree_.Put(key_, "new"), Outcome::kOk);
  EXPECT_EQ(tree_.Get(key_), "new");
  FlushAll();
  EXPECT_EQ(tree_.Get(key_), "new");
  tree_.ExpectSound();
  EXPECT_EQ(tree_.Delete(key_), Outcome::kOk);
  FlushAll();
  EXPECT_EQ(tree_.Get(key_), "none");
  tree_.KillAndRecover();
  EXPECT_EQ(tree_.Get(key_), "none");
}

TEST_F(DamageTest, RecoveryRefusesWhatItCannotTrust) {
  const auto expect_refused = [&](pmem::Word& word, unsigned bit, const char* what) {
    Flip(word, bit);
    EXPECT_EQ(tree_.RecoverError().code(), absl::StatusCode::kDataLoss) << what << ' ' << bit;
    Flip(word, bit);
  };
  pmem::Word& next = leaf_->next[(leaf_->commit.Load() & media::kUseN) != 0 ? 1 : 0];
  for (unsigned bit = 0; bit < 64; ++bit) {
    expect_refused(leaf_->commit, bit, "the commit word");
    expect_refused(leaf_->watermark, bit, "the watermark");
    expect_refused(next, bit, "the chain");
    expect_refused(leaf_->low[0], bit, "the low fence");
    expect_refused(leaf_->low[1], bit, "the low fence's other word");
    for (unsigned word = 0; word < 4; ++word) {
      expect_refused(tree_.pool().engine_area()[word], bit, "the engine area");
    }
  }
  expect_refused(leaf_->fingerprints[slot_ / 8], 8 * (slot_ % 8), "a fingerprint");
  expect_refused(leaf_->slots[slot_].value, 47, "a value");
  EXPECT_TRUE(tree_.RecoverError().ok()) << "all is as it was";
}

}  // namespace
}  // namespace lodgekv::lodgetree
