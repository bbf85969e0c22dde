// What a group of writes costs the medium, in a tree so large that groups have to flush: fences by
// the counters of the persist seam, never times.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "index/lodgetree/lodgetree_test_util.h"

namespace lodgekv::lodgetree {
namespace {

constexpr uint64_t kLoaded = 40000;
constexpr unsigned kGroups = 40;  // of each size

// Persistent memory, or an ordinary file: lines tear, and a fence is a sync.
enum class On { kPersistentMemory, kFile };
// Spread: each group's keys are evenly distributed over the tree; random ones are not.
enum class Order { kSpread, kRandom, kAscending };

// The n-th of distinct pseudo-random keys.
std::string RandomKey(uint64_t n) { return Text(RandomWord(n * 0x9E3779B97F4A7C15ull)); }

class GroupTree {
 public:
  GroupTree(KeyFormat format, On on, const TestTree::Options& options = {})
      : arena_(uint64_t{128} << 20, uint64_t{2} << 20) {
    arena_.options().strict_order = on == On::kFile;
    pmem::PoolIdentity identity = pmem::TestArena::Identity();
    identity.key_format = format;
    pool_ = arena_.Create(identity);
    EngineContext context;
    context.pool = pool_.get();
    context.key_format = format;
    context.options = *OptionValues::Parse(GetEngineInfo().options, options);
    engine_ = *GetEngineInfo().create(context);
    for (uint64_t n = 0; n < kLoaded; n += 100) (void)Write(NextKeys(Order::kSpread, 100), true);
  }
  ~GroupTree() {
    const CheckReport report = engine_->Check();
    for (const std::string& problem : report.problems) ADD_FAILURE() << problem;
    EXPECT_EQ(report.keys, written_);
  }

  std::vector<std::string> NextKeys(Order order, size_t count) {
    std::vector<std::string> keys;
    for (size_t i = 0; i < count; ++i) {
      keys.push_back(NextKey(order));
    }
    written_ += count;
    return keys;
  }

  uint64_t Count(std::string_view counter) const {
    uint64_t count = 0;
    engine_->VisitCounters([&](const CounterSample& sample) {
      if (sample.name == counter) count = static_cast<uint64_t>(sample.value);
    });
    return count;
  }
  uint64_t SecondCommits() const { return Count("second_commits_total"); }

  // Returns the fences of the call.
  uint64_t Write(const std::vector<std::string>& keys, bool atomic) {
    std::vector<WriteOp> ops;
    for (const std::string& key : keys) {
      ops.push_back({.kind = WriteKind::kPut, .key = key, .value = key});
    }
    std::vector<WriteResult> results(ops.size());
    const Cost before = ThreadCost();
    EXPECT_EQ(engine_->Write(ops, results, {.atomic = atomic}), Outcome::kOk);
    return (ThreadCost() - before).fences;
  }

 private:
  std::string NextKey(Order order) {
    switch (order) {
      case Order::kSpread: return Scattered(++spread_);
      case Order::kRandom: return RandomKey(++random_);
      case Order::kAscending:
        // Between the other keys, so that one leaf takes them all.
        return Text((uint64_t{1} << 63) + ++ascending_);
    }
    return {};
  }

  pmem::TestArena arena_;
  std::unique_ptr<pmem::Pool> pool_;
  std::unique_ptr<Engine> engine_;
  uint64_t spread_ = 0;
  uint64_t random_ = 0;
  uint64_t ascending_ = 0;
  uint64_t written_ = 0;
};

using Param = std::tuple<KeyFormat, On>;

class GroupCostTest : public ::testing::TestWithParam<Param> {
 protected:
  // One fence for the log with all slots, and one before all if commits of the nodes are still
  // open. So small is the tree that they mostly are.
  static uint64_t FencesOfAFlush() { return 2; }

  static void ExpectFewFences(GroupTree& tree, Order order, size_t size, bool atomic) {
    // One-time costs: logs for groups of a new size, chunks of the pool.
    constexpr uint64_t kGrowth = 3;
    const uint64_t each = FencesOfAFlush();
    uint64_t fences = 0;
    uint64_t most = 0;
    const uint64_t commits = tree.SecondCommits();
    for (unsigned i = 0; i < kGroups; ++i) {
      const uint64_t of_group = tree.Write(tree.NextKeys(order, size), atomic);
      most = std::max(most, of_group);
      fences += of_group;
    }
    EXPECT_EQ(tree.SecondCommits(), commits);
    EXPECT_LE(fences, kGroups * each + kGrowth) << "of all groups";
    EXPECT_LE(most, each + 2) << "of one";  // a node may split
    EXPECT_GE(fences, kGroups);             // each was durable when acknowledged
  }
};

TEST_P(GroupCostTest, AllFlushesOfAGroupShareTheirFences) {
  const auto [format, on] = GetParam();
  for (const Order order : {Order::kSpread, Order::kAscending}) {
    GroupTree tree(format, on);
    for (const bool atomic : {false, true}) {
      for (const size_t size : {8, 64, 256}) {
        SCOPED_TRACE(std::to_string(size) + (order == Order::kSpread ? " spread" : " ascending") +
                     (atomic ? ", atomic" : ""));
        ExpectFewFences(tree, order, size, atomic);
      }
    }
  }
}

// In a tree that is large for the group its flushes cost no further fence.
TEST_P(GroupCostTest, ASmallGroupMakesOneFence) {
  const auto [format, on] = GetParam();
  GroupTree tree(format, on);
  const uint64_t flushes = tree.Count("buffer_flushes_total");
  uint64_t fences = 0;
  for (unsigned i = 0; i < 10 * kGroups; ++i) {
    fences += tree.Write(tree.NextKeys(Order::kSpread, 8), true);
  }
  EXPECT_GT(tree.Count("buffer_flushes_total") - flushes, 10 * kGroups);
  EXPECT_LE(fences, 11 * kGroups);
}

// A load: very few of its 1,000 groups need more fences than the rounds.
TEST_P(GroupCostTest, ALoadOfRandomKeysMakesNoFurtherFences) {
  const auto [format, on] = GetParam();
  GroupTree tree(format, on);
  constexpr unsigned kBatches = 1000;
  uint64_t fences = 0;
  unsigned more = 0;
  for (unsigned i = 0; i < kBatches; ++i) {
    const uint64_t of_group = tree.Write(tree.NextKeys(Order::kRandom, 256), true);
    more += of_group > FencesOfAFlush() ? 1 : 0;
    fences += of_group;
  }
  const double mean = static_cast<double>(fences) / kBatches;
  EXPECT_LE(mean, static_cast<double>(FencesOfAFlush()) + 0.1) << more << " made more";
  // That costs no space: dividing each leaf evenly gave 17.98 (fixed64) and 18.05.
  const auto keys = static_cast<double>(kLoaded + kBatches * 256);
  EXPECT_GE(keys / static_cast<double>(tree.Count("leaves")), 17.8);
}

TEST_P(GroupCostTest, ALoneOperationFlushesByItself) {
  const auto [format, on] = GetParam();
  GroupTree tree(format, on);
  uint64_t fences = 0;
  for (unsigned i = 0; i < 400; ++i) fences += tree.Write(tree.NextKeys(Order::kSpread, 1), false);
  EXPECT_GT(fences, 400u);
  EXPECT_LE(fences, 400 + 160 * (FencesOfAFlush() - 1));
}

// More than a node of 29 slots takes at once: the rest follows in further rounds.
TEST_P(GroupCostTest, AGroupThatFillsSeveralNodesTakesFewRounds) {
  const auto [format, on] = GetParam();
  GroupTree tree(format, on);
  for (unsigned i = 0; i < 5; ++i) {
    EXPECT_LE(tree.Write(tree.NextKeys(Order::kAscending, 1000), true), 6 * FencesOfAFlush() + 1);
  }
}

// With a limit of a few logs, a write examines as many old entries as it appends, many of which are
// still buffered: their leaves are drained in one or two rounds. On a file a single put does so
// once in L.
TEST_P(GroupCostTest, WhatEmptiesOldLogsSharesFencesToo) {
  constexpr size_t kWrites = 20480;
  const auto [format, on] = GetParam();
  GroupTree tree(format, on, {{"log_limit_bytes", "65536"}});
  const auto each = static_cast<double>(FencesOfAFlush());
  for (const size_t size : {1, 8, 64, 256}) {
    SCOPED_TRACE(size);
    const uint64_t emptied = tree.Count("log_reclaims_total");
    uint64_t fences = 0;
    uint64_t most = 0;
    for (size_t i = 0; i < kWrites / size; ++i) {
      const uint64_t of_group = tree.Write(tree.NextKeys(Order::kRandom, size), false);
      most = std::max(most, of_group);
      fences += of_group;
    }
    const double mean = static_cast<double>(fences * size) / kWrites;
    EXPECT_GT(tree.Count("log_reclaims_total") - emptied, 600u);
    EXPECT_LE(static_cast<double>(most), 4 * each + 1);
    EXPECT_LE(mean, size > 1 ? 2 * each + 0.5 : on == On::kFile ? 1.5 : 2.4);
  }
}

INSTANTIATE_TEST_SUITE_P(Media, GroupCostTest,
                         ::testing::Combine(::testing::Values(KeyFormat::kFixed64,
                                                              KeyFormat::kBytes),
                                            ::testing::Values(On::kPersistentMemory, On::kFile)),
                         [](const auto& param_info) {
                           return std::string(std::get<0>(param_info.param) == KeyFormat::kFixed64
                                                  ? "fixed64"
                                                  : "bytes") +
                                  (std::get<1>(param_info.param) == On::kFile ? "_file" : "_pmem");
                         });

}  // namespace
}  // namespace lodgekv::lodgetree
