// The log's limit: what it depends on, that live logs stay below it, and that no single write pays
// for that. Measured by counts, never by times.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "index/lodgetree/lodgetree_test_util.h"
#include "tests/support/allocation_counter.h"

namespace lodgekv::lodgetree {
namespace {

constexpr uint64_t kKeys = 150'000;
constexpr uint64_t kBytesOfNode = 2048;

TestTree::Options Limit(uint64_t bytes) { return {{"log_limit_bytes", std::to_string(bytes)}}; }

// The n-th of distinct pseudo-random keys.
std::string RandomKey(uint64_t n) { return Text(RandomWord(n * 0x9E3779B97F4A7C15ull)); }

// The cost of single puts of random keys while the tree grows.
struct Load {
  double fences_of_a_put = 0;
  uint64_t most_fences = 0;  // of one put
  uint64_t most_lines = 0;   // of one put
  uint64_t most_live = 0;    // bytes of live logs
  std::map<std::string, uint64_t, std::less<>> counters;
};

Load LoadKeys(TestTree& tree, uint64_t first = 0, uint64_t keys = kKeys) {
  Load load;
  const Cost begin = ThreadCost();
  for (uint64_t n = first; n < first + keys; ++n) {
    const Cost before = ThreadCost();
    EXPECT_EQ(tree.Put(RandomKey(n), Text(n)), Outcome::kOk);
    const Cost cost = ThreadCost() - before;
    load.most_fences = std::max(load.most_fences, cost.fences);
    load.most_lines = std::max(load.most_lines, cost.lines_flushed);
    if (n % 50 == 0) load.most_live = std::max(load.most_live, tree.Counters()["log_live_bytes"]);
  }
  load.fences_of_a_put =
      static_cast<double>((ThreadCost() - begin).fences) / static_cast<double>(keys);
  load.counters = tree.Counters();
  return load;
}

class LogLimitTest : public ::testing::TestWithParam<KeyFormat> {};

// A put's own flush drains two leaves, one of which may split. Likewise, the leaf of one entry of
// an old log costs the put at most two more fences, if slots need not be freed first, and the lines
// of a split.
TEST_P(LogLimitTest, NoPutPaysForIt) {
  TestTree with_room(GetParam());
  Load without = LoadKeys(with_room);
  ASSERT_EQ(without.counters["log_reclaims_total"], 0u);
  for (const uint64_t share : {2, 4, 16}) {
    const uint64_t limit = without.most_live / share;
    TestTree tree(GetParam(), Limit(limit));
    Load at_limit = LoadKeys(tree);
    EXPECT_GT(at_limit.counters["log_reclaims_total"], 100u);
    EXPECT_LE(at_limit.most_fences, without.most_fences + 2) << "1 / " << share;
    EXPECT_LE(at_limit.most_lines, 2 * without.most_lines) << "1 / " << share;
    EXPECT_LE(at_limit.most_live, limit) << "1 / " << share;
    tree.ExpectSound();
  }
}

// With the default limit as much is buffered as without one.
TEST_P(LogLimitTest, RandomKeysDoNotComeNearTheDefault) {
  TestTree with_room(GetParam());
  Load without = LoadKeys(with_room);
  const uint64_t nodes = without.counters["last_level_nodes"];
  TestTree tree(GetParam(), Limit(nodes * kBytesOfNode));
  Load at_default = LoadKeys(tree);
  EXPECT_EQ(at_default.counters["log_reclaims_total"], 0u);
  EXPECT_EQ(at_default.fences_of_a_put, without.fences_of_a_put);
  EXPECT_LE(at_default.fences_of_a_put, 1.4);
}

// Cold pairs, each of which pins a log: nodes that are written rarely, beside others that are
// written constantly.
TEST_P(LogLimitTest, ColdPairsDoNotKeepLogsForEver) {
  constexpr uint64_t kLimit = 256 << 10;
  TestTree tree(GetParam(), Limit(kLimit));
  LoadKeys(tree);
  uint64_t most_fences = 0;
  for (uint64_t n = 0; n < kKeys; ++n) {
    const bool cold = n % 25 == 0;
    const std::string key = RandomKey(cold ? n : n % 100);
    const Cost before = ThreadCost();
    ASSERT_EQ(tree.Put(key, Text(n + 1)), Outcome::kOk);
    most_fences = std::max(most_fences, (ThreadCost() - before).fences);
    if (n % 50 == 0) {
      ASSERT_LE(tree.Counters()["log_live_bytes"], kLimit);
    }
  }
  EXPECT_LE(most_fences, 8u);
  tree.ExpectSound();
}

// Puts to existing keys, after a thread's data structures have reached their final size.
uint64_t AllocationsOfPuts(TestTree& tree) {
  uint64_t allocations = 0;
  for (uint64_t n = 0; n < 20'000; ++n) {
    const std::string key = RandomKey(n * 7 % kKeys);
    const WriteOp op{.kind = WriteKind::kPut, .key = key, .value = key};
    WriteResult result;
    const uint64_t before = ThreadAllocations();
    EXPECT_EQ(tree.engine().Write({&op, 1}, {&result, 1}, {}), Outcome::kOk);
    if (n >= 5'000) allocations += ThreadAllocations() - before;
  }
  return allocations;
}

TEST_P(LogLimitTest, PutsAllocateNoMoreThanWithoutIt) {
  TestTree with_room(GetParam());
  const uint64_t wanted = LoadKeys(with_room).most_live;
  TestTree tree(GetParam(), Limit(wanted / 4));
  LoadKeys(tree);
  const uint64_t emptied = tree.Counters()["log_reclaims_total"];
  // Of 15,000. Batches of records freed by another thread are new or reused, depending on that
  // thread's timing.
  constexpr uint64_t kBatches = 150;
  EXPECT_LE(AllocationsOfPuts(tree), AllocationsOfPuts(with_room) + kBatches);
  EXPECT_GT(tree.Counters()["log_reclaims_total"], emptied + 100);
}

// Opened with a lower limit than before the crash, and then written far from the old pairs.
TEST_P(LogLimitTest, LogsOfBeforeACrashAreEmptiedToo) {
  constexpr uint64_t kLimit = 32 << 10;
  TestTree tree(GetParam());
  LoadKeys(tree);
  ASSERT_TRUE(tree.RecoverError(Limit(kLimit)).ok());
  tree.KillAndRecover();
  EXPECT_GT(tree.Counters()["log_live_bytes"], 2 * kLimit);
  uint64_t most_fences = 0;
  for (uint64_t n = 0; n < 20'000; ++n) {
    const Cost before = ThreadCost();
    ASSERT_EQ(tree.Put(RandomKey(n % 100), Text(n)), Outcome::kOk);
    most_fences = std::max(most_fences, (ThreadCost() - before).fences);
  }
  EXPECT_LE(tree.Counters()["log_live_bytes"], kLimit);
  EXPECT_LE(most_fences, 8u);
  tree.ExpectSound();
}

TEST_P(LogLimitTest, ThreadsKeepBelowItTogether) {
  constexpr uint64_t kLimit = 128 << 10;
  constexpr uint64_t kThreads = 4;
  constexpr uint64_t kOfThread = 30'000;
  TestTree tree(GetParam(), Limit(kLimit));
  std::vector<uint64_t> most_live(kThreads);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&tree, &most_live, t] {
      for (uint64_t n = 0; n < kOfThread; ++n) {
        ASSERT_EQ(tree.Put(RandomKey(n * kThreads + t), Text(n)), Outcome::kOk);
        if (n % 50 != 0) continue;
        most_live[t] = std::max(most_live[t], tree.Counters()["log_live_bytes"]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // A thread that others overtake has yet to examine what it owes for the log that it has opened.
  constexpr uint64_t kLogBytes = 1024;
  EXPECT_LE(*std::max_element(most_live.begin(), most_live.end()), kLimit + kThreads * kLogBytes);
  EXPECT_GT(tree.Counters()["log_reclaims_total"], 100u);
  tree.ExpectSound();
  tree.KillAndRecover(2);
  EXPECT_EQ(tree.engine().CountKeys(), kThreads * kOfThread);
  tree.ExpectSound();
}

INSTANTIATE_TEST_SUITE_P(Formats, LogLimitTest,
                         ::testing::Values(KeyFormat::kFixed64, KeyFormat::kBytes));

// Memory of which only touched pages are allocated.
class LargeTree {
 public:
  LargeTree(uint64_t bytes, const TestTree::Options& options) : bytes_(bytes) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT_NE(memory, MAP_FAILED);
    memory_ = static_cast<std::byte*>(memory);
    pmem::Pool::ArenaOptions arena;
    arena.memory = {memory_, bytes};
    arena.chunk_bytes = uint64_t{1} << 20;
    pmem::PoolIdentity identity = pmem::TestArena::Identity();
    identity.key_format = KeyFormat::kFixed64;
    pool_ = *pmem::Pool::CreateArena(arena, identity);
    EngineContext context;
    context.pool = pool_.get();
    context.key_format = KeyFormat::kFixed64;
    context.options = *OptionValues::Parse(GetEngineInfo().options, options);
    engine_ = *GetEngineInfo().create(context);
  }
  ~LargeTree() {
    engine_.reset();
    pool_.reset();
    munmap(memory_, bytes_);
  }

  void Put(const std::string& key) {
    const WriteOp op{.kind = WriteKind::kPut, .key = key, .value = key};
    WriteResult result;
    EXPECT_EQ(engine_->Write({&op, 1}, {&result, 1}, {}), Outcome::kOk);
  }
  uint64_t Counter(std::string_view name) {
    uint64_t value = 0;
    engine_->VisitCounters([&](const CounterSample& sample) {
      if (sample.name == name) value = static_cast<uint64_t>(sample.value);
    });
    return value;
  }
  uint64_t capacity() const { return pool_->capacity_bytes(); }

 private:
  const uint64_t bytes_;
  std::byte* memory_;
  std::unique_ptr<pmem::Pool> pool_;
  std::unique_ptr<Engine> engine_;
};

// Small nodes and leaves, so that few keys make many nodes.
const TestTree::Options kSmallNodes = {{"node_slots", "4"}, {"leaf_slots", "4"}};

TEST(DefaultLogLimitTest, FollowsTheNodes) {
  constexpr uint64_t kLeast = uint64_t{64} << 20;
  LargeTree tree(uint64_t{1} << 30, kSmallNodes);
  EXPECT_EQ(tree.Counter("log_limit_bytes"), kLeast);
  for (uint64_t n = 0; tree.Counter("last_level_nodes") < 40'000; ++n) {
    for (uint64_t i = 0; i < 500; ++i) tree.Put(RandomKey(500 * n + i));
    const uint64_t of_nodes = tree.Counter("last_level_nodes") * kBytesOfNode;
    ASSERT_EQ(tree.Counter("log_limit_bytes"), std::max(of_nodes, kLeast));
  }
  EXPECT_GT(tree.Counter("log_limit_bytes"), kLeast);
}

TEST(DefaultLogLimitTest, TakesAnEighthOfThePoolAtMost) {
  LargeTree tree(uint64_t{128} << 20, {});
  EXPECT_EQ(tree.Counter("log_limit_bytes"), tree.capacity() / 8);
}

TEST(DefaultLogLimitTest, GivesWayToTheOption) {
  TestTree::Options options = kSmallNodes;
  options.merge(Limit(12'345));
  LargeTree tree(uint64_t{128} << 20, options);
  EXPECT_EQ(tree.Counter("log_limit_bytes"), 12'345u);
}

}  // namespace
}  // namespace lodgekv::lodgetree
