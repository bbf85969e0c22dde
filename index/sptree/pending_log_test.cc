// A start that touches no leaf although the log is full (pending_log.h): leaves take what the log
// has of them when they are touched first.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "index/pmem/testing/silent_tracer.h"
#include "index/sptree/log_bins.h"
#include "index/sptree/sptree_test_util.h"

namespace lodgekv::sptree {
namespace {

constexpr uint64_t kKeys = 40'000;
const TestTree::Options kBuffers = {{"write_buffer_pairs", "14"}};

// A tree whose leaves have, of every eighth key, something newer in the log.
class PendingLogTest : public ::testing::TestWithParam<KeyFormat> {
 protected:
  // Keys of `bytes` share their first word.
  std::string Key(uint64_t i) const {
    return GetParam() == KeyFormat::kBytes ? "a long prefix " + Text(i) : Text(i);
  }
  void SetUp() override {
    for (uint64_t i = 0; i < kKeys; ++i) Put(RandomWord(i) % kKeys * 2, 7);
    for (uint64_t i = 0; i < kKeys; ++i) Put(i * 2, i);
    while (Count("backups_total") == 0) std::this_thread::yield();
    (void)tree_.engine().Close();
    for (uint64_t i = 0; i < kKeys; i += 8) Change(i);
    leaves_ = tree_.Leaves().size();
    ASSERT_GT(leaves_, 500u);
  }
  void Put(uint64_t key, uint64_t value) {
    ASSERT_EQ(tree_.Put(Key(key), Text(value)), Outcome::kOk);
    model_[Key(key)] = Text(value);
  }
  void Delete(uint64_t key) {
    ASSERT_EQ(tree_.Delete(Key(key)), Outcome::kOk);
    model_.erase(Key(key));
  }
  // A new value, twice; a new key; or a key fewer.
  void Change(uint64_t i) {
    switch (i / 8 % 3) {
      case 0: Put(i * 2, kKeys - i); return Put(i * 2, kKeys + i);
      case 1: return Put(i * 2 + 1, i);
      default: return Delete(i * 2);
    }
  }
  std::string Expected(uint64_t key) const {
    const auto found = model_.find(Key(key));
    return found == model_.end() ? "none" : found->second;
  }
  uint64_t Count(std::string_view name) { return tree_.Counters().find(name)->second; }
  // Nothing is done in the background: only what is touched is known.
  void KillAndRecoverInPlace(const TestTree::Options& options = kBuffers) {
    tree_.arena().options().tracer = &tracer_;
    tree_.KillAndRecoverWith(options);
    tree_.arena().options().tracer = nullptr;
  }
  std::map<std::string, std::string> All(bool reverse = false) {
    std::map<std::string, std::string> all;
    ScanOptions options;
    options.reverse = reverse;
    (void)tree_.engine().Scan(options, [&](const ScanItem& item) {
      all.emplace(item.key, item.value);
      return true;
    });
    return all;
  }
  void Compare() {
    tree_.ExpectSound();
    EXPECT_EQ(tree_.engine().CountKeys(), model_.size());
    EXPECT_EQ(All(), model_);
  }

  pmem::SilentTracer tracer_;
  TestTree tree_{GetParam(), kBuffers};
  std::map<std::string, std::string> model_;
  uint64_t leaves_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Formats, PendingLogTest,
                         ::testing::Values(KeyFormat::kFixed64, KeyFormat::kBytes),
                         [](const auto& test) {
                           return test.param == KeyFormat::kBytes ? "bytes" : "fixed64";
                         });

TEST_P(PendingLogTest, TheStartTouchesNoLeafAndALookupItsOwn) {
  KillAndRecoverInPlace();
  EXPECT_EQ(tree_.recovery().leaves_scanned, 0u);
  EXPECT_EQ(tree_.recovery().log_entries_replayed, 0u);
  EXPECT_EQ(Count("leaves"), 1u);  // the gap
  EXPECT_EQ(Count("buffer_dram_bytes"), 0u);
  EXPECT_GT(Count("log_live_bytes"), kKeys / 8 * 32);
  EXPECT_EQ(tree_.Get(Key(kKeys)), Expected(kKeys));
  EXPECT_LE(Count("leaves"), 3u);
  EXPECT_EQ(Count("buffer_flushes_total"), 0u);
}

TEST_P(PendingLogTest, WithoutTheSwitchAllIsReplayedFirst) {
  KillAndRecoverInPlace({{"write_buffer_pairs", "14"}, {"lazy_replay", "0"}});
  EXPECT_EQ(tree_.recovery().leaves_scanned, leaves_);
  EXPECT_GT(tree_.recovery().log_entries_replayed, kKeys / 16);
  Compare();
}

// Of a log's header, which says everything twice.
TEST_P(PendingLogTest, ADamagedCopyOfAHeaderIsReportedAndWrittenAgain) {
  for (const char* lazy : {"1", "0"}) {
    const TestTree::Options options = {{"write_buffer_pairs", "14"}, {"lazy_replay", lazy}};
    KillAndRecoverInPlace(options);
    for (const pmem::Chunk& chunk : tree_.pool().Chunks()) {
      if (chunk.use == pmem::ChunkUse::kLogs) *tree_.pool().At<uint64_t>(chunk.begin) ^= 1;
    }
    KillAndRecoverInPlace(options);
    EXPECT_GT(tree_.recovery().repairs, 0u);
    tree_.ExpectSound();
  }
  Compare();
}

TEST_P(PendingLogTest, LookupsSeeIt) {
  KillAndRecoverInPlace();
  for (uint64_t i = 0; i < 2 * kKeys; ++i) {
    const uint64_t key = RandomWord(i) % (2 * kKeys);
    ASSERT_EQ(tree_.Get(Key(key)), Expected(key)) << key;
  }
  Compare();
}

// Each is the first that comes to its leaf.
TEST_P(PendingLogTest, WritesAndScansSeeIt) {
  KillAndRecoverInPlace();
  for (uint64_t i = 0; i < kKeys; i += 64) {
    const uint64_t at = (kKeys - 64 - i) & ~uint64_t{7};
    switch (i / 64 % 4) {
      case 0: Put(at * 2, 1); break;
      case 1: Delete((at + 8) * 2); break;  // a key that is there, or is not
      case 2: Put((at + 1) * 2, 3); break;  // its neighbour
      default: {
        ScanOptions options;
        const std::string from = Key(at * 2);
        options.start = from;
        (void)tree_.engine().Scan(options, [&](const ScanItem& item) {
          const auto expected = model_.lower_bound(from);
          EXPECT_EQ(item.key, expected->first);
          EXPECT_EQ(item.value, expected->second);
          return false;
        });
      }
    }
  }
  Compare();
  KillAndRecoverInPlace();
  EXPECT_EQ(All(/*reverse=*/true), model_);
  Compare();
}

TEST_P(PendingLogTest, GroupsAndBatchesSeeIt) {
  KillAndRecoverInPlace();
  std::vector<std::string> keys;
  for (uint64_t i = 0; i < 60; ++i) keys.push_back(Key(i * 16 * 33));
  std::vector<WriteOp> ops;
  for (const std::string& key : keys) {
    ops.push_back({.kind = WriteKind::kPut, .key = key, .value = "new8byte"});
    model_[key] = "new8byte";
  }
  ASSERT_EQ(tree_.Write(ops), Outcome::kOk);
  for (WriteOp& op : ops) op.value = "newer 8b";
  for (const std::string& key : keys) model_[key] = "newer 8b";
  ASSERT_EQ(tree_.Write(ops, {.atomic = true}), Outcome::kOk);
  Compare();
}

// What is half done is begun again: some leaves have taken their entries, some of these have been
// flushed, and others have been written to.
TEST_P(PendingLogTest, KillsInBetweenLoseNothing) {
  for (uint64_t round = 0; round < 6; ++round) {
    KillAndRecoverInPlace();
    EXPECT_EQ(tree_.recovery().leaves_scanned, 0u);
    for (uint64_t i = 0; i < 2'000; ++i) {
      const uint64_t key = RandomWord(round * 10'000 + i) % kKeys;
      Change(key);
      ASSERT_EQ(tree_.Get(Key(key * 2)), Expected(key * 2));
    }
  }
  Compare();
}

// Logs are freed by the leaves that do not need them any more.
TEST_P(PendingLogTest, TheSweepTakesAllOfIt) {
  for (uint64_t i = 0; i < kKeys; i += 3) Put(i * 2, i);
  for (unsigned round = 0; round < 2; ++round) {
    KillAndRecoverInPlace();
    std::thread other([&, model = model_] {
      for (uint64_t i = 0; i < kKeys; ++i) {
        const std::string key = Key(RandomWord(i) % kKeys * 2);
        const auto expected = model.find(key);
        ASSERT_EQ(tree_.Get(key), expected == model.end() ? "none" : expected->second);
      }
    });
    for (uint64_t i = 1; i < kKeys; i += 5) Put((kKeys - i) * 2 + 1, i);
    other.join();
    while (tree_.engine().GetRecoveryState().phase == "sweep") Put(0, 1);
    Compare();
    (void)tree_.engine().Close();
    EXPECT_TRUE(tree_.engine().GetRecoveryState().error.ok());
    EXPECT_GT(tree_.engine().GetRecoveryState().report->log_entries_replayed, kKeys / 16);
    EXPECT_LE(Count("log_live_bytes"), 4096u);
    EXPECT_EQ(Count("buffer_dram_bytes") / 1'000'000, 0u);
    Compare();
    for (uint64_t i = 0; i < kKeys; i += 8) Put(i * 2, i + 9);
  }
}

// Records of what was replaced have been used for others: those entries are dead.
TEST_P(PendingLogTest, EntriesWithoutTheirRecordAreExplained) {
  for (uint64_t i = 0; i < 5 * kKeys; ++i) Put(RandomWord(i) % 2'000 * 16, i);
  KillAndRecoverInPlace();
  EXPECT_EQ(tree_.recovery().leaves_scanned, 0u);
  EXPECT_EQ(tree_.recovery().log_entries_dropped, 0u);
  Compare();
  EXPECT_TRUE(tree_.engine().Close().ok());
  Compare();
}

TEST_P(PendingLogTest, WithoutBuffersLeavesAreWalkedAndTheLogIsGone) {
  KillAndRecoverInPlace({});
  EXPECT_EQ(tree_.recovery().leaves_scanned, leaves_);
  EXPECT_EQ(Count("log_live_bytes"), 0u);
  Compare();
}

TEST_P(PendingLogTest, SmallerBuffersTakeIt) {
  KillAndRecoverInPlace({{"write_buffer_pairs", "1"}, {"write_buffer_share", "1"}});
  for (uint64_t i = 0; i < kKeys; i += 8) {
    ASSERT_EQ(tree_.Get(Key(i * 2)), Expected(i * 2));
    Change(i);
  }
  Compare();
}

template <class C>
std::vector<size_t> BinsOf(std::vector<typename BinBorders<C>::Drawn> keys, size_t bins) {
  BinBorders<C> borders;
  borders.Set(keys, bins);
  std::sort(keys.begin(), keys.end());
  std::vector<size_t> sizes(bins);
  size_t before = 0;
  for (const auto& key : keys) {
    const size_t bin = borders.BinOf(key);
    EXPECT_GE(bin, before);
    before = bin;
    ++sizes[bin];
  }
  return sizes;
}

TEST(LogBinsTest, AreOfOneSizeHoweverKeysBegin) {
  std::vector<std::string> one;
  std::vector<std::string> two;
  for (uint64_t i = 0; i < 10'000; ++i) {
    const std::string number = std::to_string(RandomWord(i));
    one.push_back("user:000000000" + number);
    two.push_back((i % 2 == 0 ? "a prefix of many " : "b prefix of many ") + number);
  }
  std::vector<uint64_t> words;
  for (uint64_t i = 0; i < 10'000; ++i) words.push_back(i * i);
  for (const size_t bins : {1, 2, 3, 100}) {
    for (const auto& sizes : {BinsOf<BytesCodec>(one, bins), BinsOf<BytesCodec>(two, bins),
                              BinsOf<Fixed64Codec>(words, bins)}) {
      for (const size_t size : sizes) EXPECT_NEAR(static_cast<double>(size), 10'000.0 / bins, 1.1);
    }
  }
  BinBorders<BytesCodec> borders;
  borders.Set(one, 10);
  EXPECT_EQ(borders.BinOf("a"), 0u);
  EXPECT_EQ(borders.BinOf("user:"), 0u);
  EXPECT_EQ(borders.BinOf("v"), 9u);
}

}  // namespace
}  // namespace lodgekv::sptree
