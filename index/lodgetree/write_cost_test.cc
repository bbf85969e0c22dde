// The cost of writes in the steady state, by the counters of pmem::Medium.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "index/lodgetree/lodgetree_test_util.h"

namespace lodgekv::lodgetree {
namespace {

const TestTree::Options kLongLogs = {{"log_entries", "1000"}};

void ExpectCost(const Effect& effect, uint64_t lines, uint64_t fences, const std::string& what) {
  EXPECT_EQ(effect.cost.lines_flushed, lines) << what;
  EXPECT_EQ(effect.cost.fences, fences) << what;
}

WriteOp PutOp(std::string_view key, std::string_view value,
              Condition condition = Condition::kNone) {
  return {.kind = WriteKind::kPut, .condition = condition, .key = key, .value = value};
}

TEST(WriteCostTest, Fixed64OneLineAndOneFence) {
  TestTree tree(KeyFormat::kFixed64, kLongLogs);
  ASSERT_EQ(tree.Put(Text(1), Text(1)), Outcome::kOk);  // opens the first log
  for (uint64_t n = 2; n < 25; ++n) {
    ExpectCost(tree.PutEffect(Text(n), Text(n)), 1, 1, "put " + std::to_string(n));
  }
  ExpectCost(tree.PutEffect(Text(3), Text(9)), 1, 1, "update of a buffered pair");
  ExpectCost(tree.EffectOf([&] { EXPECT_EQ(tree.Delete(Text(4)), Outcome::kOk); }), 1, 1,
             "delete of a buffered pair");
  const auto conditional = [&](uint64_t key, Condition condition) {
    return tree.EffectOf([&] { (void)tree.Write({PutOp(Text(key), Text(0), condition)}); });
  };
  ExpectCost(conditional(5, Condition::kIfPresent), 1, 1, "a condition that holds");
  ExpectCost(conditional(5, Condition::kIfAbsent), 0, 0, "a condition that does not");
  ExpectCost(tree.EffectOf([&] { (void)tree.Delete(Text(999)); }), 0, 0, "delete of an absent key");
  ExpectCost(tree.EffectOf([&] { EXPECT_EQ(tree.Get(Text(3)), Text(9)); }), 0, 0, "get");
  EXPECT_EQ(tree.Counters()["buffer_flushes_total"], 0u);
}

// The header of the next log is written together with the last entry of a log: one more line in L
// puts, no fence.
TEST(WriteCostTest, TheNextLogsHeaderSharesAFence) {
  TestTree tree(KeyFormat::kFixed64, {{"log_entries", "10"}});
  ASSERT_EQ(tree.Put(Text(1), Text(0)), Outcome::kOk);
  for (uint64_t n = 2; n <= 200; ++n) {
    ExpectCost(tree.PutEffect(Text(1), Text(n)), n % 10 == 0 ? 2 : 1, 1,
               "update " + std::to_string(n));
  }
  EXPECT_EQ(tree.Counters()["superseded_pairs_total"], 199u);
}

TEST(WriteCostTest, BytesTheRecordsLinesAndTheEntryUnderOneFence) {
  TestTree tree(KeyFormat::kBytes, kLongLogs);
  const std::string key = "sixteen bytes: ?";
  for (const uint64_t lines : {1, 2, 4}) {
    // A record of whole lines in a size class of exactly its size, which is aligned to it.
    const std::string value(lines * 64 - key.size() - sizeof(lodgekv::media::RecordHeader), 'v');
    ASSERT_EQ(tree.Put(key, value), Outcome::kOk);  // the first chunk of the class
    for (char last = 'a'; last < 'f'; ++last) {
      std::string other = key;
      other.back() = last;
      ExpectCost(tree.PutEffect(other, value), lines + 1, 1, std::to_string(lines) + " lines");
    }
  }
  ExpectCost(tree.EffectOf([&] { EXPECT_EQ(tree.Delete(key), Outcome::kOk); }), 1, 1, "delete");
}

TEST(WriteCostTest, AGroupSharesOneFence) {
  TestTree tree(KeyFormat::kFixed64, kLongLogs);
  ASSERT_EQ(tree.Put(Text(1), Text(1)), Outcome::kOk);
  std::vector<std::string> keys;
  for (uint64_t n = 2; n <= 22; ++n) keys.push_back(Text(n));
  for (const bool atomic : {false, true}) {
    std::vector<WriteOp> ops;
    for (const std::string& key : keys) ops.push_back(PutOp(key, key));
    const Effect effect =
        tree.EffectOf([&] { EXPECT_EQ(tree.Write(ops, {.atomic = atomic}), Outcome::kOk); });
    // Entries 1 to 21, then 22 to 42, two in a line: eleven lines each.
    ExpectCost(effect, 11, 1, atomic ? "atomic" : "group commit");
    EXPECT_EQ(effect["buffer_flushes_total"], 0u);
  }
}

TEST(WriteCostTest, AGroupOfRecordsSharesOneFence) {
  TestTree tree(KeyFormat::kBytes, kLongLogs);
  const std::string value(24, 'v');
  std::vector<std::string> keys;
  for (char c = 'a'; c < 'k'; ++c) keys.push_back("sixteen bytes: " + std::string(1, c));
  // A first group pays one-time costs: the log, chunks for records and for spare ones.
  std::vector<WriteOp> ops;
  for (const std::string& key : keys) ops.push_back(PutOp(key, value));
  ASSERT_EQ(tree.Write(ops), Outcome::kOk);
  const Effect effect = tree.EffectOf([&] { EXPECT_EQ(tree.Write(ops), Outcome::kOk); });
  // Ten records of a line, entries 10 to 19 in five lines.
  ExpectCost(effect, 15, 1, "ten puts");
}

// The leaves hold what is deleted, so only their fingerprints are known without reading them. A
// tombstone for a key that is not there is dead at once, and recovery may find it.
TEST(WriteCostTest, DeletesOfAbsentKeysAreRarelyLogged) {
  TestTree tree(KeyFormat::kFixed64);
  constexpr uint64_t kKeys = 20000;
  for (uint64_t n = 0; n < kKeys; ++n) (void)tree.Put(Scattered(n), Text(n));
  const auto live = [&tree] { return tree.Counters()["log_live_bytes"]; };
  const uint64_t live_before = live();
  uint64_t logged = 0;
  for (uint64_t n = kKeys; n < 2 * kKeys; ++n) {
    bool found = true;
    const std::string key = Scattered(n);
    const Effect effect = tree.EffectOf([&] {
      const WriteOp op{.kind = WriteKind::kDelete, .key = key};
      WriteResult result;
      EXPECT_EQ(tree.engine().Write({&op, 1}, {&result, 1}, {}), Outcome::kOk);
      found = result.found;
    });
    ASSERT_FALSE(found);
    logged += effect.cost.fences;
  }
  EXPECT_LT(logged, kKeys / 8) << "a leaf of 27 pairs has one in ten fingerprints";
  EXPECT_GT(logged, kKeys / 100);
  EXPECT_LE(live(), live_before + 4096) << "superfluous entries keep logs alive";
  for (const bool recovered : {false, true}) {
    if (recovered) tree.KillAndRecover();
    EXPECT_EQ(tree.engine().CountKeys(), kKeys);
    for (uint64_t n = 0; n < kKeys; ++n) ASSERT_EQ(tree.Get(Scattered(n)), Text(n));
    tree.ExpectSound();
  }
}

// The project's target figures, including splits.
TEST(WriteCostTest, InsertsInNoOrder) {
  TestTree tree(KeyFormat::kFixed64);
  constexpr uint64_t kKeys = 60000;
  const Cost before = ThreadCost();
  for (uint64_t n = 0; n < kKeys; ++n) (void)tree.Put(Scattered(n), Text(n));
  const Cost cost = ThreadCost() - before;
  EXPECT_EQ(tree.engine().CountKeys(), kKeys);
  EXPECT_LE(static_cast<double>(cost.lines_flushed) / kKeys, 2.8);
  EXPECT_LE(static_cast<double>(cost.fences) / kKeys, 1.4);
  EXPECT_GE(cost.fences, kKeys);  // each was durable when acknowledged
  tree.ExpectSound();
}

TEST(WriteCostTest, WithoutTheBufferEveryWriteGoesToItsLeaf) {
  TestTree tree(KeyFormat::kFixed64, {{"surrogate_buffer", "0"}});
  for (uint64_t n = 0; n < 500; ++n) {
    const Effect effect = tree.PutEffect(Scattered(n), Text(n));
    ASSERT_EQ(effect["flushed_pairs_total"], 1u);
    ASSERT_GE(effect.cost.fences, 2u);
  }
  uint64_t pairs = 0;
  for (const unsigned fill : tree.LeafFill()) pairs += fill;
  EXPECT_EQ(pairs, 500u);
  tree.ExpectSound();
}

// A writer with an applied index holds its nodes while another thread empties old logs.
TEST(AppliedIndexTest, DoesNotWaitForWhoEmptiesLogs) {
  TestTree tree(KeyFormat::kFixed64, {{"log_limit_bytes", "1"}, {"log_entries", "4"}});
  constexpr uint64_t kWrites = 4000;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&tree, t] {
      for (uint64_t n = 1; n <= kWrites; ++n) {
        const std::string key = Scattered(n % 300);
        WriteOptions options;
        if (t == 0) options = {.atomic = true, .applied_index = n};
        EXPECT_EQ(tree.Write({PutOp(key, Text(n))}, options), Outcome::kOk);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(tree.engine().AppliedIndex(), kWrites);
  EXPECT_GT(tree.Counters()["log_reclaims_total"], 0u);
  tree.ExpectSound();
  tree.KillAndRecover();
  EXPECT_EQ(tree.engine().AppliedIndex(), kWrites);
}

}  // namespace
}  // namespace lodgekv::lodgetree
