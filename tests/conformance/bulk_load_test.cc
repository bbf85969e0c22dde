// Bulk load, of every engine that has it: what was loaded is there, survives and can be changed;
// what cannot be loaded is refused, by its position, and leaves nothing in the pool.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/support/pool_identity.h"

namespace lodgekv::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Pairs = std::vector<Pair>;

BulkSource SourceOf(const Pairs& pairs) {
  return [&pairs, next = size_t{0}](BulkPair* to) mutable -> absl::StatusOr<bool> {
    if (next == pairs.size()) return false;
    const Pair& pair = pairs[next++];
    *to = {pair.key, pair.value, pair.expiry_unix_ms};
    return true;
  };
}

// Beside the fixture's engine, which stays empty.
class BulkLoadTest : public ConformanceTest {
 protected:
  bool inline_pairs() const { return GetParam().inline_pairs; }

  // In order. Of `bytes`: short and long keys and values, values beyond a chunk of records, some
  // expiring, some short enough for a slot.
  Pairs MakePairs(uint64_t count) const {
    Pairs pairs;
    for (uint64_t i = 0; i < count; ++i) pairs.push_back(MakePair(i));
    std::sort(pairs.begin(), pairs.end(),
              [](const Pair& a, const Pair& b) { return a.key < b.key; });
    return pairs;
  }

  // Throws if the load fails.
  std::unique_ptr<EngineHarness> Load(const Pairs& pairs, unsigned fill) {
    const BulkLoad load{SourceOf(pairs), fill};
    return EngineHarness::Create(GetParam(), {.bulk_load = &load}).value();
  }

  static void ExpectHolds(Engine& engine, const Pairs& pairs) {
    const CheckReport report = engine.Check();
    for (const std::string& problem : report.problems) ADD_FAILURE() << "Check: " << problem;
    EXPECT_EQ(report.problem_count, 0u);
    EXPECT_EQ(engine.CountKeys(), pairs.size());
    const Pairs scanned = ScanAll(engine);
    ASSERT_EQ(scanned.size(), pairs.size());
    for (size_t i = 0; i < pairs.size(); ++i) {
      const Pair& pair = pairs[i];
      ASSERT_EQ(scanned[i].key, pair.key);
      ASSERT_EQ(scanned[i].value, pair.value) << Show(pair.key);
      ASSERT_EQ(scanned[i].expiry_unix_ms, pair.expiry_unix_ms) << Show(pair.key);
      const ReadResult read = Get(engine, pair.key);
      ASSERT_TRUE(read.found) << Show(pair.key);
      ASSERT_EQ(read.value, pair.value) << Show(pair.key);
    }
  }

  // The error of a load into an empty pool, in which it must leave nothing.
  absl::Status ErrorOf(const BulkLoad& load, uint64_t pool_bytes = uint64_t{8} << 20) {
    ArenaMemory memory(pool_bytes);
    memory.FillWithGarbage(TestSeed());
    pmem::Pool::ArenaOptions arena;
    arena.memory = memory.span();
    arena.chunk_bytes = uint64_t{64} << 10;
    const auto pool = pmem::Pool::CreateArena(arena, IdentityOf(GetParam()));
    if (!pool.ok()) return pool.status();
    const absl::Status error = LoadInto(**pool, load).status();
    EXPECT_EQ((*pool)->allocated_bytes(), 0u);
    EXPECT_TRUE((*pool)->LargeObjects().empty());
    for (const pmem::Word& word : (*pool)->engine_area()) EXPECT_EQ(word.Load(), 0u);
    ExpectUsable(**pool);
    return error;
  }
  absl::Status ErrorOf(const Pairs& pairs) { return ErrorOf({SourceOf(pairs), 70}); }

  static std::string Message(const absl::Status& error, absl::StatusCode code) {
    EXPECT_EQ(error.code(), code) << error;
    return std::string(error.message());
  }
  static std::string InvalidArgument(const absl::Status& error) {
    return Message(error, absl::StatusCode::kInvalidArgument);
  }

 private:
  Pair MakePair(uint64_t i) const {
    if (fixed64()) return {BigEndian(i * 0x9E3779B97F4A7C15ull), BigEndian(~i)};
    std::string key = i % 3 == 0 ? absl::StrCat("k", i) : absl::StrCat("shared/prefix/", i, "/key");
    const size_t bytes = i % 500 == 7 ? size_t{100} << 10 : i % 40;
    return {std::move(key), std::string(bytes, static_cast<char>('a' + i % 26)), 0,
            has_versions() && i % 10 == 0 ? 5'000 + i : 0};
  }

  absl::StatusOr<std::unique_ptr<Engine>> LoadInto(pmem::Pool& pool, const BulkLoad& load) const {
    EngineContext context;
    context.pool = &pool;
    context.key_format = format();
    context.inline_pairs = inline_pairs();
    context.options = OptionsFor(GetParam());
    return GetParam().engine->bulk_load(context, load);
  }

  void ExpectUsable(pmem::Pool& pool) const {
    const Pairs few = MakePairs(5);
    const auto engine = LoadInto(pool, {SourceOf(few), 70});
    ASSERT_TRUE(engine.ok()) << engine.status();
    EXPECT_EQ((*engine)->CountKeys(), few.size());
  }
};

TEST_P(BulkLoadTest, EveryPairIsThereAndSurvives) {
  for (const size_t count : {0u, 1u, 3000u}) {
    const Pairs pairs = MakePairs(count);
    for (const unsigned fill : {kLeastFillPercent, 33u, 70u, 100u}) {
      SCOPED_TRACE(absl::StrCat(count, " pairs, filled to ", fill, " %"));
      const auto harness = Load(pairs, fill);
      ExpectHolds(harness->engine(), pairs);
      for (const unsigned threads : {1u, 2u}) {
        harness->set_recovery_threads(threads);
        ASSERT_TRUE(harness->KillAndReopen().ok());
        ExpectHolds(harness->engine(), pairs);
      }
      ASSERT_TRUE(harness->CloseAndReopen().ok());
      ExpectHolds(harness->engine(), pairs);
    }
  }
}

TEST_P(BulkLoadTest, TheTreeGrowsAndShrinksLikeAnyOther) {
  const Pairs pairs = MakePairs(3000);
  for (const unsigned fill : {kLeastFillPercent, 70u, 100u}) {
    Pairs half;
    for (size_t i = 0; i < pairs.size(); i += 2) half.push_back(pairs[i]);
    const auto harness = Load(half, fill);
    for (size_t i = 1; i < pairs.size(); i += 2) {
      WriteOp put = PutOp(pairs[i].key, pairs[i].value);
      put.expiry_unix_ms = pairs[i].expiry_unix_ms;
      ASSERT_EQ(Apply(harness->engine(), put).outcome, Outcome::kOk);
    }
    ExpectHolds(harness->engine(), pairs);
    Pairs rest;
    for (size_t i = 1; i < pairs.size(); i += 2) rest.push_back(pairs[i]);
    for (const Pair& pair : half) {
      const WriteResult removed = Delete(harness->engine(), pair.key);
      ASSERT_EQ(removed.outcome, Outcome::kOk);
      ASSERT_TRUE(removed.found);
    }
    ExpectHolds(harness->engine(), rest);
  }
}

TEST_P(BulkLoadTest, RefusesAFillOutOfBounds) {
  const Pairs pairs = MakePairs(10);
  for (const unsigned fill : {0u, kLeastFillPercent - 1, 101u, 1000u}) {
    EXPECT_THAT(InvalidArgument(ErrorOf({SourceOf(pairs), fill})),
                HasSubstr(absl::StrCat("to 10 to 100 percent, not to ", fill)));
  }
}

TEST_P(BulkLoadTest, RefusesKeysOutOfOrder) {
  Pairs pairs = MakePairs(1000);
  std::swap(pairs[700], pairs[701]);
  EXPECT_THAT(InvalidArgument(ErrorOf(pairs)),
              AllOf(HasSubstr("pair 702 has key"), HasSubstr("below that of pair 701"),
                    HasSubstr("must ascend")));
  if (fixed64()) return;
  // Compared as byte strings, not as signed ones.
  const Pairs high = {{"\x7f", "a"}, {"\x80", "b"}, {"\xff", "c"}, {"\xff\x01", "d"}, {"a", "e"}};
  EXPECT_THAT(InvalidArgument(ErrorOf(high)),
              AllOf(HasSubstr("pair 5 has key \"a\""), HasSubstr("pair 4, \"\\xff\\x01\"")));
}

TEST_P(BulkLoadTest, RefusesAKeyThatIsThereTwice) {
  Pairs pairs = MakePairs(300);
  pairs.insert(pairs.begin() + 17, pairs[16]);
  EXPECT_THAT(InvalidArgument(ErrorOf(pairs)),
              AllOf(HasSubstr("pair 18 has key"), HasSubstr("which pair 17 has too")));
}

TEST_P(BulkLoadTest, RefusesPairsThatTheKeyFormatDoesNotTake) {
  const std::string one = BigEndian(1);
  const std::string two = BigEndian(2);
  std::vector<std::pair<Pairs, ::testing::Matcher<std::string>>> refused;
  if (fixed64()) {
    refused = {{{{one, one}, {"123456789", two}},
                AllOf(HasSubstr("pair 2 has a key of 9 bytes and a value of 8"),
                      HasSubstr("exactly 8 bytes"))},
               {{{one, "short"}}, HasSubstr("pair 1 has a key of 8 bytes and a value of 5")},
               {{{one, one, 0, 77}}, HasSubstr("an expiry")}};
  } else {
    refused = {{{{"", "v"}}, AllOf(HasSubstr("a key of 0 bytes"), HasSubstr("1 to 65535"))},
               {{{std::string(65'536, 'k'), "v"}}, HasSubstr("a key of 65536 bytes")}};
    if (inline_pairs())
      refused.push_back({{{"k", "v", 0, 77}}, HasSubstr("with inline_pairs without expiry")});
  }
  for (const auto& [pairs, message] : refused) {
    EXPECT_THAT(InvalidArgument(ErrorOf(pairs)), message);
  }
}

TEST_P(BulkLoadTest, ReportsASourceThatFails) {
  uint64_t next = 0;
  std::string key;
  const BulkSource source = [&](BulkPair* pair) -> absl::StatusOr<bool> {
    if (next == 1234) return absl::UnavailableError("the file has ended early");
    key = BigEndian(next++);
    *pair = {key, key};
    return true;
  };
  EXPECT_THAT(Message(ErrorOf({source, 70}), absl::StatusCode::kUnavailable),
              AllOf(HasSubstr("after 1234 pairs"), HasSubstr("the file has ended early")));
}

TEST_P(BulkLoadTest, RefusesWhatThePoolHasNoRoomFor) {
  const BulkSource endless = [next = uint64_t{0},
                              key = std::string()](BulkPair* pair) mutable -> absl::StatusOr<bool> {
    key = BigEndian(next++);
    *pair = {key, key};
    return true;
  };
  EXPECT_THAT(
      Message(ErrorOf({endless, 70}, uint64_t{1} << 20), absl::StatusCode::kResourceExhausted),
      AllOf(HasSubstr("the pool is full"), HasSubstr("no room for pair ")));
}

INSTANTIATE_TEST_SUITE_P(Engines, BulkLoadTest, ::testing::ValuesIn(BulkLoadCases()),
                         EngineCaseName());

}  // namespace
}  // namespace lodgekv::test
