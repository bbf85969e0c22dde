// The checker of concurrent histories, on histories whose validity is known.
#include "tests/crash/schedule/concurrent_history.h"

#include <gtest/gtest.h>

#include "tests/crash/lab/image_set.h"
#include "tests/crash/schedule/scheduled_tracer.h"
#include "tests/support/engine_harness.h"
#include "tests/support/key_sets.h"

namespace lodgekv::test {
namespace {

constexpr uint64_t kTreeValue = 10;

const EngineCase& FixedCase() {
  static const EngineCase engine_case = [] {
    std::vector<EngineCase> cases = StoringCases();
    std::erase_if(cases, [](const EngineCase& c) { return !c.fixed64() || c.small_nodes; });
    return cases.front();
  }();
  return engine_case;
}

std::string Key(uint64_t number) { return BigEndian(number); }
std::string Value(uint64_t number) { return ValueOf(KeyFormat::kFixed64, number); }

StepOp PutOf(uint64_t key, uint64_t value, Condition condition = Condition::kNone) {
  return {WriteKind::kPut, condition, Key(key), Value(value), 0, 0};
}
StepOp DeleteOf(uint64_t key) { return {WriteKind::kDelete, Condition::kNone, Key(key), "", 0, 0}; }
Call Write(std::vector<StepOp> ops) { return {.step = {.ops = std::move(ops)}}; }
Call Batch(std::vector<StepOp> ops, std::optional<uint64_t> index = {}) {
  return {.step = {.ops = std::move(ops), .atomic = true, .applied_index = index}};
}
Call ReadOf(uint64_t key) { return {.kind = Call::Kind::kRead, .keys = {Key(key)}}; }

using Pairs = std::vector<std::pair<uint64_t, uint64_t>>;

// Key 1 and key 2 are changed; key 1 and key 9 are in the tree.
class ConcurrentHistoryTest : public ::testing::Test {
 protected:
  ConcurrentHistoryTest() : engine_(Holding({{1, kTreeValue}, {9, 90}})) {
    program_.hot = {Key(1), Key(2)};
    program_.threads.resize(1);
    for (uint64_t value = 11; value < 20; ++value) {
      program_.threads[0].push_back(Write({PutOf(1, value)}));
    }
    history_.emplace(FixedCase(), program_, engine_->engine());
  }

  static std::unique_ptr<EngineHarness> Holding(const Pairs& pairs, uint64_t applied_index = 0) {
    auto harness = EngineHarness::Create(FixedCase());
    for (const auto& [key, value] : pairs) {
      Step step{.ops = {PutOf(key, value)}, .atomic = true};
      if (applied_index != 0) step.applied_index = applied_index;
      WriteResult result;
      EXPECT_EQ((*harness)->engine().Write(step.Ops(), {&result, 1}, step.Options()), Outcome::kOk);
    }
    return *std::move(harness);
  }
  // Makes the call; runs `meanwhile` while it is in flight, but has taken effect.
  void Make(
      unsigned thread, const Call& call, absl::FunctionRef<void()> meanwhile = [] {}) {
    EXPECT_EQ(history_->Make(engine_->engine(), thread, call, meanwhile), std::nullopt);
  }
  // Whether a crash now may leave these pairs, and key 9.
  bool May(Pairs pairs, uint64_t applied_index = 0) {
    pairs.push_back({9, 90});
    const auto left = Holding(pairs, applied_index);
    return !history_->Check(history_->Observe(left->engine())).has_value();
  }

  std::unique_ptr<EngineHarness> engine_;
  Program program_;
  std::optional<ConcurrentHistory> history_;
};

TEST_F(ConcurrentHistoryTest, WhatWasAcknowledgedMustBeThere) {
  EXPECT_TRUE(May({{1, kTreeValue}}));
  Make(0, Write({PutOf(1, 11)}));
  EXPECT_TRUE(May({{1, 11}}));
  EXPECT_FALSE(May({{1, kTreeValue}}));
  EXPECT_FALSE(May({}));
  EXPECT_FALSE(May({{1, 11}, {2, 12}}));
  Make(1, Write({DeleteOf(1)}));
  EXPECT_TRUE(May({}));
  EXPECT_FALSE(May({{1, 11}}));
}

TEST_F(ConcurrentHistoryTest, WhatIsInFlightMayBeThere) {
  Make(0, Write({PutOf(1, 11)}), [&] {
    EXPECT_TRUE(May({{1, kTreeValue}}));
    EXPECT_TRUE(May({{1, 11}}));
    EXPECT_FALSE(May({}));
  });
  Make(0, Write({DeleteOf(1)}), [&] {
    EXPECT_TRUE(May({{1, 11}}));
    EXPECT_TRUE(May({}));
  });
}

TEST_F(ConcurrentHistoryTest, WhatWasReadMustBeThere) {
  Make(0, Write({PutOf(1, 11)}), [&] {
    Make(1, ReadOf(1));
    EXPECT_TRUE(May({{1, 11}}));
    EXPECT_FALSE(May({{1, kTreeValue}}));
  });
}

TEST_F(ConcurrentHistoryTest, WhatWasScannedMustBeThere) {
  Make(0, Write({PutOf(2, 11)}), [&] {
    EXPECT_TRUE(May({{1, kTreeValue}}));
    Make(1, {.kind = Call::Kind::kScan});
    EXPECT_FALSE(May({{1, kTreeValue}}));
    EXPECT_TRUE(May({{1, kTreeValue}, {2, 11}}));
  });
}

TEST_F(ConcurrentHistoryTest, WhatWasObservedMustStay) {
  Make(0, Write({PutOf(1, 11)}), [&] { Make(1, Write({PutOf(1, 12)})); });
  EXPECT_TRUE(May({{1, 11}}));
  EXPECT_TRUE(May({{1, 12}}));
  history_->Note(history_->Observe(engine_->engine()));
  EXPECT_TRUE(May({{1, 12}}));
  EXPECT_FALSE(May({{1, 11}}));
}

// Either outcome, but no other once recovery has decided.
TEST_F(ConcurrentHistoryTest, WhatRecoveryHasFoundStays) {
  const auto without = Holding({{1, kTreeValue}, {9, 90}});
  const auto with = Holding({{1, 11}, {9, 90}}, 5);
  Make(0, Batch({PutOf(1, 11)}, 5), [&] {
    const Observation one = history_->Observe(without->engine());
    const Observation other = history_->Observe(with->engine());
    for (const auto& [found, wrong] : {std::pair(one, other), std::pair(other, one)}) {
      EXPECT_EQ(history_->Check(found), std::nullopt);
      ConcurrentHistory later = *history_;
      later.Adopt(found);
      EXPECT_EQ(later.Check(found), std::nullopt);
      EXPECT_NE(later.Check(wrong), std::nullopt);
    }
  });
}

TEST_F(ConcurrentHistoryTest, CallsGoOnBehindACrash) {
  Make(0, Write({PutOf(1, 11)}), [&] {
    history_->Adopt(history_->Observe(Holding({{1, kTreeValue}, {9, 90}})->engine()));
    Make(1, Write({PutOf(1, 12)}), [&] {
      EXPECT_TRUE(May({{1, kTreeValue}}));
      EXPECT_TRUE(May({{1, 12}}));
      EXPECT_FALSE(May({{1, 11}}));
    });
    EXPECT_FALSE(May({{1, kTreeValue}}));
    EXPECT_TRUE(May({{1, 12}}));
  });
}

TEST_F(ConcurrentHistoryTest, TwoInFlightMayHaveEitherOrder) {
  Make(0, Write({PutOf(1, 11)}), [&] {
    Make(1, Write({PutOf(1, 12)}), [&] {
      for (const uint64_t value : {kTreeValue, uint64_t{11}, uint64_t{12}}) {
        EXPECT_TRUE(May({{1, value}}));
      }
    });
    // The first may still take effect after the second.
    EXPECT_TRUE(May({{1, 11}}));
    EXPECT_TRUE(May({{1, 12}}));
    EXPECT_FALSE(May({{1, kTreeValue}}));
  });
}

TEST_F(ConcurrentHistoryTest, ABatchInFlightIsThereOrNot) {
  Make(0, Batch({PutOf(1, 11), PutOf(2, 12)}), [&] {
    EXPECT_TRUE(May({{1, kTreeValue}}));
    EXPECT_TRUE(May({{1, 11}, {2, 12}}));
    EXPECT_FALSE(May({{1, 11}}));
    EXPECT_FALSE(May({{1, kTreeValue}, {2, 12}}));
    Make(1, ReadOf(2));
    EXPECT_FALSE(May({{1, kTreeValue}}));
  });
}

TEST_F(ConcurrentHistoryTest, OfAGroupAPartMayBeThere) {
  Make(0, Write({PutOf(1, 11), PutOf(2, 12)}), [&] { EXPECT_TRUE(May({{1, 11}})); });
  EXPECT_FALSE(May({{1, 11}}));
}

TEST_F(ConcurrentHistoryTest, TheAppliedIndexComesWithItsBatch) {
  Make(0, Batch({PutOf(1, 11)}, 5), [&] {
    EXPECT_TRUE(May({{1, kTreeValue}}, 0));
    EXPECT_TRUE(May({{1, 11}}, 5));
    EXPECT_FALSE(May({{1, 11}}, 0));
    EXPECT_FALSE(May({{1, kTreeValue}}, 5));
  });
  EXPECT_FALSE(May({{1, 11}}, 0));
}

TEST_F(ConcurrentHistoryTest, AConditionInFlightIsKept) {
  Make(0, Write({PutOf(2, 11, Condition::kIfAbsent)}), [&] {
    EXPECT_TRUE(May({{1, kTreeValue}}));
    EXPECT_TRUE(May({{1, kTreeValue}, {2, 11}}));
  });
  Make(0, Write({PutOf(2, 12, Condition::kIfAbsent)}), [&] {
    EXPECT_FALSE(May({{1, kTreeValue}, {2, 12}}));
  });
}

TEST_F(ConcurrentHistoryTest, KeysThatNobodyChangesStay) {
  for (const Pairs& pairs : {Pairs{{1, kTreeValue}}, Pairs{{1, kTreeValue}, {9, 91}},
                             Pairs{{1, kTreeValue}, {8, 80}, {9, 90}}}) {
    const auto left = Holding(pairs);
    EXPECT_NE(history_->Check(history_->Observe(left->engine())), std::nullopt);
  }
}

TEST_F(ConcurrentHistoryTest, WrongAnswersAreProblems) {
  Make(0, Write({PutOf(1, 11)}));
  // Answers come from an engine that has lost the value.
  const auto forgetful = Holding({{1, kTreeValue}, {9, 90}});
  EXPECT_EQ(history_->Make(forgetful->engine(), 1, ReadOf(1), [] {}), std::nullopt);
  EXPECT_FALSE(May({{1, 11}}));
  EXPECT_FALSE(May({{1, kTreeValue}}));
}

TEST(ScheduledTracerTest, ALateFenceTakesEffectWhenItsCallReturns) {
  ArenaMemory memory(4096);
  ScheduledTracer tracer(memory.span(), {Fault::Kind::kLateFence, "here"}, nullptr);
  pmem::Medium::Options options;
  options.tracer = &tracer;
  pmem::Medium medium(options);
  auto& word = *reinterpret_cast<pmem::Word*>(memory.span().data());
  medium.Store(word, 1);
  medium.FlushLine(&word);
  medium.CrashPoint("here");
  medium.Fence();
  EXPECT_EQ(ImageSet(tracer.inner(), CrashModel::kLinePrefix).count(), 2U);
  tracer.Returned();
  EXPECT_EQ(ImageSet(tracer.inner(), CrashModel::kLinePrefix).count(), 1U);
  EXPECT_TRUE(tracer.fault_happened());
}

}  // namespace
}  // namespace lodgekv::test
