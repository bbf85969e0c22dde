// Counters that cross 32 or 36 bits, reach their maximum, or wrap around.
#include "tests/crash/lab/high_numbers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <iostream>
#include <limits>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "index/node/version_lock.h"
#include "index/pmem/pool.h"
#include "tests/crash/explorer/open_pool.h"
#include "tests/crash/explorer/plan.h"
#include "tests/crash/lab/isolated.h"
#include "tests/crash/scenarios/pool_scenario.h"
#include "tests/engines/engine_rows.h"
#include "tests/support/engine_calls.h"
#include "tests/support/key_sets.h"

namespace lodgekv::test {
namespace {

constexpr CrashModel kModels[] = {CrashModel::kLinePrefix, CrashModel::kTornWords};

// A crash loses 2^20 reserved numbers.
constexpr uint64_t kNumbersOfACrash = uint64_t{1} << 20;

struct Start {
  std::string_view name;
  uint64_t first;
};
constexpr Start kStarts[] = {
    {"bits_32", (uint64_t{1} << 32) - 10},
    {"bits_36", (uint64_t{1} << 36) - 10},
    {"bits_48", (uint64_t{1} << 48) - 10},
    // Enough for the crashes of every run.
    {"end", kSequenceEnd - 100 * kNumbersOfACrash},
};

class HighNumbersTest : public ::testing::TestWithParam<Start> {};

// Versions, watermarks, the horizon and the versions of logs are all sequence numbers.
TEST_P(HighNumbersTest, AreNumbersLikeAllOthers) {
  ExplorerResult total;
  for (const EngineCase& engine_case : PersistentCases()) {
    if (!engine_case.small_nodes) continue;
    for (const CrashModel model : kModels) {
      for (ExplorerOptions options : PlanRuns(engine_case, model, {.runs = 1})) {
        options.first_sequence = GetParam().first;
        options.max_images = 3'000 / kSanitizerSlowdown;
        total.Add(Explorer(options).Run());
        ASSERT_FALSE(total.failure.has_value()) << *total.failure;
      }
    }
  }
  std::cout << absl::StreamFormat("%s: quiet in %d images\n", std::string(GetParam().name),
                                  total.images);
  EXPECT_GT(total.images, 50'000U / kSanitizerSlowdown);
}

INSTANTIATE_TEST_SUITE_P(Starts, HighNumbersTest, ::testing::ValuesIn(kStarts),
                         [](const auto& start) { return std::string(start.param.name); });

class LastNumbersTest : public ::testing::Test {
 protected:
  LastNumbersTest() : memory_(128 << 10) {
    pmem::PoolIdentity identity;
    identity.engine = "test";
    EXPECT_TRUE(pmem::Pool::CreateArena(Options(), identity).ok());
  }
  pmem::Pool::ArenaOptions Options() const {
    pmem::Pool::ArenaOptions options;
    options.memory = memory_.span();
    return options;
  }
  std::unique_ptr<pmem::Pool> Open() {
    auto pool = pmem::Pool::OpenArena(Options());
    EXPECT_TRUE(pool.ok()) << pool.status();
    return pool.ok() ? *std::move(pool) : nullptr;
  }

  ArenaMemory memory_;
};

TEST_F(LastNumbersTest, AreHandedOutToTheLast) {
  SetNextSequence(memory_, kSequenceEnd - 6);
  const auto pool = Open();
  ASSERT_NE(pool, nullptr);
  for (uint64_t i = 6; i > 2; --i) EXPECT_EQ(pool->TakeSequence(1), kSequenceEnd - i);
  EXPECT_LT(pool->PeekSequence(), kSequenceEnd);
}

TEST_F(LastNumbersTest, BehindThemTheProcessEndsAndSaysWhy) {
  SetNextSequence(memory_, kSequenceEnd - 6);
  const auto pool = Open();
  ASSERT_NE(pool, nullptr);
  EXPECT_DEATH(for (;;)(void) pool->TakeSequence(1), "sequence numbers are used up");
}

TEST_F(LastNumbersTest, APoolWithoutAnySaysSoWhenItIsOpened) {
  SetNextSequence(memory_, kSequenceEnd - 6);
  (void)Open();  // and killed: the reserved numbers are lost
  const absl::Status status = pmem::Pool::OpenArena(Options()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_TRUE(absl::StrContains(std::string(status.message()), "used up")) << status;
}

TEST_F(LastNumbersTest, AnOrderlyCloseLosesNone) {
  SetNextSequence(memory_, kSequenceEnd - 6);
  auto pool = Open();
  ASSERT_NE(pool, nullptr);
  EXPECT_EQ(pool->TakeSequence(1), kSequenceEnd - 6);
  ASSERT_TRUE(pool->Close(true).ok());
  pool = Open();
  ASSERT_NE(pool, nullptr);
  EXPECT_EQ(pool->TakeSequence(1), kSequenceEnd - 5);
}

// Puts until no number is left; returns the first wrong answer.
std::string PutToTheEnd(const EngineCase& engine_case) {
  ExplorerOptions options;
  options.engine_case = engine_case;
  options.first_sequence = kLastNumbers;
  ArenaMemory memory(options.memory_bytes);
  OpenPool open;
  absl::Status status = MakePool(options, memory);
  if (status.ok()) status = OpenImage(options, OptionsFor(engine_case), memory, nullptr, &open);
  if (!status.ok()) return status.ToString();
  for (uint64_t i = 0; i < 1000; ++i) {
    const std::string key = OrderedKey(engine_case.key_format, i % 7);
    const std::string value = ValueOf(engine_case.key_format, i);
    if (Put(*open.engine, key, value).outcome != Outcome::kOk) return "a put was refused";
    if (Get(*open.engine, key).value != value) return "a read was wrong";
    const CheckReport check = open.engine->Check();
    if (check.problem_count > 0) return check.problems.front();
  }
  return "the numbers have no end";
}

TEST(LastNumbersOfAnEngineTest, AreAnsweredRightlyToTheEnd) {
  for (const EngineCase& engine_case : PersistentCases()) {
    // Without a log, pairs of 8 + 8 bytes need no number.
    const EngineRows* rows = RowsOf(engine_case.engine->name);
    const bool has_log = engine_case.buffered || (rows != nullptr && rows->has_log);
    if (!has_log && (engine_case.fixed64() || engine_case.inline_pairs)) continue;
    const IsolatedResult result =
        RunIsolated(20 * kSanitizerSlowdown, [&] { return PutToTheEnd(engine_case); });
    EXPECT_EQ(result.report, "") << engine_case.Name();
    EXPECT_TRUE(absl::StrContains(result.death, "Aborted")) << engine_case.Name() << result.death;
  }
}

TEST(StateGenerationTest, BeginsAgainBehind32Bits) {
  for (const CrashModel model : kModels) {
    const PoolOutcome seen = RunPoolScenario(model, {}, std::numeric_limits<uint32_t>::max() - 20);
    EXPECT_EQ(seen.problem, std::nullopt) << ModelName(model);
    EXPECT_GT(seen.images, 800U);
  }
}

// A version lock counts publications in 62 bits: a reader would have to sleep through all of them.
TEST(VersionLockWrapTest, TellsReadersOfEveryPublication) {
  constexpr uint64_t kStep = 4;
  VersionLock lock;
  static_assert(sizeof lock == sizeof(std::atomic<uint64_t>));
  auto& word = reinterpret_cast<std::atomic<uint64_t>&>(lock);
  word.store(std::numeric_limits<uint64_t>::max() - 10 * kStep + 1);
  const uint64_t first = lock.ReadBegin();
  for (int i = 0; i < 20; ++i) {
    const uint64_t before = lock.ReadBegin();
    EXPECT_TRUE(lock.Validate(before));
    ASSERT_TRUE(lock.TryUpgrade(before)) << i;
    EXPECT_TRUE(lock.IsLocked());
    EXPECT_TRUE(lock.Validate(before)) << "locked, nothing published";
    lock.BeginPublish();
    EXPECT_FALSE(lock.Validate(before));
    lock.EndPublish();
    EXPECT_FALSE(lock.Validate(before));
    EXPECT_TRUE(lock.IsLocked());
    lock.Unlock();
    EXPECT_FALSE(lock.IsLocked());
    EXPECT_FALSE(lock.TryUpgrade(before));
    EXPECT_FALSE(lock.Validate(first));
  }
  EXPECT_LT(word.load(), 20 * kStep) << "it has not begun again";
}

}  // namespace
}  // namespace lodgekv::test
