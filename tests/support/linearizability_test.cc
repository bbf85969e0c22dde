#include "tests/support/linearizability.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "tests/support/random.h"

namespace lodgekv::test {
namespace {

using History = std::vector<RegisterOp>;

// The simplest checker: tries every order that the times allow. For short histories.
bool SomeOrderExplains(const History& history, uint64_t done, uint64_t state) {
  bool all_returned_done = true;
  for (size_t i = 0; i < history.size(); ++i) {
    if ((done >> i & 1) == 0 && history[i].return_ns != kNeverReturned) all_returned_done = false;
  }
  if (all_returned_done) return true;
  for (size_t i = 0; i < history.size(); ++i) {
    if ((done >> i & 1) != 0) continue;
    bool first = true;
    for (size_t j = 0; j < history.size(); ++j) {
      if ((done >> j & 1) == 0 && history[j].return_ns < history[i].call_ns) first = false;
    }
    const RegisterOp& op = history[i];
    const bool allowed = op.require == RegisterOp::Require::kAnything ||
                         (op.require == RegisterOp::Require::kEquals) == (state == op.operand);
    if (!first || !allowed) continue;
    if (SomeOrderExplains(history, done | uint64_t{1} << i, op.sets ? op.value : state)) {
      return true;
    }
  }
  return false;
}

void ExpectLinearizable(const History& history) {
  EXPECT_TRUE(SomeOrderExplains(history, 0, kAbsent));
  EXPECT_EQ(FindAnomaly(history), std::nullopt);
  EXPECT_EQ(FindAnomalyJustInTime(history, kAbsent), std::nullopt);
}

void ExpectAnomaly(const History& history) {
  EXPECT_FALSE(SomeOrderExplains(history, 0, kAbsent));
  EXPECT_NE(FindAnomaly(history), std::nullopt);
  EXPECT_NE(FindAnomalyJustInTime(history, kAbsent), std::nullopt);
}

TEST(LinearizabilityTest, EmptyHistory) { ExpectLinearizable({}); }

TEST(LinearizabilityTest, SequentialReadsSeeTheLastWrite) {
  ExpectLinearizable({RegisterOp::Read(kAbsent).At(0, 1), RegisterOp::Write(1).At(2, 3),
                      RegisterOp::Read(1).At(4, 5), RegisterOp::Write(2).At(6, 7),
                      RegisterOp::Read(2).At(8, 9)});
}

TEST(LinearizabilityTest, StaleReadIsFound) {
  ExpectAnomaly(
      {RegisterOp::Write(1).At(0, 1), RegisterOp::Write(2).At(2, 3), RegisterOp::Read(1).At(4, 5)});
}

TEST(LinearizabilityTest, ReadOfAbsenceAfterAWriteIsFound) {
  ExpectAnomaly({RegisterOp::Write(1).At(0, 1), RegisterOp::Read(kAbsent).At(2, 3)});
}

TEST(LinearizabilityTest, ReadOfWhatNobodyWroteIsFound) {
  ExpectAnomaly({RegisterOp::Write(1).At(0, 1), RegisterOp::Read(7).At(2, 3)});
}

TEST(LinearizabilityTest, ReadBeforeItsWriteIsFound) {
  ExpectAnomaly({RegisterOp::Read(1).At(0, 1), RegisterOp::Write(1).At(2, 3)});
}

TEST(LinearizabilityTest, OverlappingWriteMayOrMayNotBeSeen) {
  ExpectLinearizable({RegisterOp::Write(1).At(0, 1), RegisterOp::Write(2).At(2, 9),
                      RegisterOp::Read(1).At(3, 4), RegisterOp::Read(2).At(5, 6)});
}

TEST(LinearizabilityTest, NewThenOldIsFoundThoughTheWriteStillRuns) {
  ExpectAnomaly({RegisterOp::Write(1).At(0, 1), RegisterOp::Write(2).At(2, 9),
                 RegisterOp::Read(2).At(3, 4), RegisterOp::Read(1).At(5, 6)});
}

TEST(LinearizabilityTest, EqualTimesOverlap) {
  ExpectLinearizable({RegisterOp::Write(1).At(0, 5), RegisterOp::Read(kAbsent).At(5, 6)});
  ExpectLinearizable({RegisterOp::Read(1).At(0, 5), RegisterOp::Write(1).At(5, 6)});
}

TEST(LinearizabilityTest, BackwardZoneInsideAForwardOneIsFound) {
  // 1 is current before and after; 2 is written and read by then, all in between.
  ExpectAnomaly({RegisterOp::Write(1).At(0, 1), RegisterOp::Write(2).At(3, 5),
                 RegisterOp::Read(2).At(4, 6), RegisterOp::Read(1).At(8, 9)});
}

TEST(LinearizabilityTest, TwoReadersMayNotDisagreeOnTheOrderOfTwoWrites) {
  ExpectAnomaly({RegisterOp::Write(1).At(0, 9), RegisterOp::Write(2).At(0, 9),
                 RegisterOp::Read(1).At(10, 11), RegisterOp::Read(2).At(12, 13)});
  ExpectAnomaly({RegisterOp::Write(1).At(0, 3), RegisterOp::Write(2).At(0, 3),
                 RegisterOp::Read(1).At(1, 4), RegisterOp::Read(2).At(5, 6),
                 RegisterOp::Read(1).At(7, 8)});
}

TEST(LinearizabilityTest, UnknownWriteMayBeSeenLateOrNever) {
  ExpectLinearizable({RegisterOp::Write(1).At(0, kNeverReturned),
                      RegisterOp::Read(kAbsent).At(5, 6), RegisterOp::Read(1).At(50, 60)});
  ExpectLinearizable(
      {RegisterOp::Write(1).At(0, kNeverReturned), RegisterOp::Read(kAbsent).At(50, 60)});
  ExpectAnomaly({RegisterOp::Write(1).At(0, kNeverReturned), RegisterOp::Read(1).At(5, 6),
                 RegisterOp::Read(kAbsent).At(7, 8)});
}

TEST(LinearizabilityTest, DeleteTellsWhetherTheKeyWasThere) {
  ExpectLinearizable({RegisterOp::Delete(false).At(0, 1), RegisterOp::Write(1).At(2, 3),
                      RegisterOp::Delete(true).At(4, 5), RegisterOp::Delete(false).At(6, 7),
                      RegisterOp::Read(kAbsent).At(8, 9)});
  ExpectAnomaly({RegisterOp::Write(1).At(0, 1), RegisterOp::Delete(false).At(2, 3)});
  ExpectAnomaly({RegisterOp::Write(1).At(0, 1), RegisterOp::Delete(true).At(2, 5),
                 RegisterOp::Delete(true).At(2, 5)});
  ExpectAnomaly({RegisterOp::Write(1).At(0, 1), RegisterOp::Delete(true).At(2, 3),
                 RegisterOp::Read(1).At(4, 5)});
}

TEST(LinearizabilityTest, OfTwoWritesIfAbsentOneWins) {
  ExpectLinearizable({RegisterOp::WriteIfAbsent(1, true).At(0, 5),
                      RegisterOp::WriteIfAbsent(2, false).At(0, 5), RegisterOp::Read(1).At(6, 7)});
  ExpectAnomaly(
      {RegisterOp::WriteIfAbsent(1, true).At(0, 5), RegisterOp::WriteIfAbsent(2, true).At(0, 5)});
  ExpectAnomaly(
      {RegisterOp::WriteIfAbsent(1, false).At(0, 5), RegisterOp::WriteIfAbsent(2, false).At(0, 5)});
}

TEST(LinearizabilityTest, WriteIfPresent) {
  ExpectLinearizable({RegisterOp::WriteIfPresent(1, false).At(0, 1), RegisterOp::Write(2).At(2, 3),
                      RegisterOp::WriteIfPresent(3, true).At(4, 5), RegisterOp::Read(3).At(6, 7)});
  ExpectAnomaly({RegisterOp::WriteIfPresent(1, true).At(0, 1)});
}

TEST(LinearizabilityTest, LostUpdateIsFound) {
  ExpectLinearizable({RegisterOp::Write(1).At(0, 1), RegisterOp::CompareAndSet(1, 2, true).At(2, 9),
                      RegisterOp::CompareAndSet(1, 3, false).At(2, 9)});
  ExpectAnomaly({RegisterOp::Write(1).At(0, 1), RegisterOp::CompareAndSet(1, 2, true).At(2, 9),
                 RegisterOp::CompareAndSet(1, 3, true).At(2, 9)});
}

TEST(LinearizabilityTest, AnomalySaysWhichOperationAndWhen) {
  const auto anomaly = FindAnomaly(History{RegisterOp::Write(1).At(100, 110, 3),
                                           RegisterOp::Write(2).At(120, 130, 4),
                                           RegisterOp::Read(1).At(140, 150, 5)});
  ASSERT_TRUE(anomaly.has_value());
  EXPECT_NE(anomaly->find("[20, 30] thread 5: saw 1"), std::string::npos) << *anomaly;
  EXPECT_NE(anomaly->find("[0, 10] thread 4: set 2"), std::string::npos) << *anomaly;
}

TEST(LinearizabilityTest, MoreThan64OverlappingOperationsAreRefused) {
  History history;
  for (uint64_t i = 0; i < 65; ++i) history.push_back(RegisterOp::Delete(false).At(0, 1));
  for (uint64_t i = 0; i < 2; ++i) history.push_back(RegisterOp::Delete(true).At(0, 1));
  EXPECT_THROW(static_cast<void>(FindAnomaly(history)), std::length_error);
}

// A history as threads would see it of a register whose operations take effect at random instants,
// with `lies` answers changed afterwards.
History RandomHistory(Random& random, size_t ops, bool conditions, unsigned lies) {
  History history;
  std::vector<size_t> order(ops);
  std::iota(order.begin(), order.end(), size_t{0});
  uint64_t state = kAbsent;
  for (size_t i = 0; i < ops; ++i) {
    const auto at = static_cast<int64_t>(i * 10);
    const uint64_t fresh = i + 1;
    RegisterOp op = RegisterOp::Read(state);
    if (random.Percent(45)) op = RegisterOp::Write(fresh);
    if (conditions && random.Percent(40)) {
      switch (random.Below(4)) {
        case 0: op = RegisterOp::Delete(state != kAbsent); break;
        case 1: op = RegisterOp::WriteIfAbsent(fresh, state == kAbsent); break;
        case 2: op = RegisterOp::WriteIfPresent(fresh, state != kAbsent); break;
        default: op = RegisterOp::CompareAndSet(state, fresh, true); break;
      }
    }
    if (op.sets) state = op.value;
    const auto before = static_cast<int64_t>(random.Below(30));
    const auto after = static_cast<int64_t>(random.Below(30));
    history.push_back(op.At(at - before, random.OneIn(16) ? kNeverReturned : at + after));
  }
  for (; lies > 0 && !history.empty(); --lies) {
    RegisterOp& op = history[random.Below(ops)];
    if (op.require == RegisterOp::Require::kEquals) op.operand = random.Below(ops + 1);
  }
  std::shuffle(history.begin(), history.end(), std::minstd_rand(static_cast<uint32_t>(ops)));
  return history;
}

TEST(LinearizabilityTest, AlgorithmsAgreeWithTryingEveryOrder) {
  SCOPED_TRACE(SeedNote());
  Random random("linearizability");
  uint64_t anomalies = 0;
  const uint64_t rounds = Scaled(20'000);
  for (uint64_t round = 0; round < rounds; ++round) {
    const bool conditions = random.OneIn(2);
    const auto lies = static_cast<unsigned>(random.Below(3));
    const History history = RandomHistory(random, 1 + random.Below(8), conditions, lies);
    const bool expected = SomeOrderExplains(history, 0, kAbsent);
    ASSERT_TRUE(expected || lies > 0) << "round " << round;
    anomalies += expected ? 0 : 1;
    ASSERT_EQ(!FindAnomalyJustInTime(history, kAbsent).has_value(), expected) << "round " << round;
    if (!HasUniqueWrites(history, kAbsent)) continue;
    ASSERT_EQ(!FindAnomalyByZones(history, kAbsent).has_value(), expected) << "round " << round;
  }
  EXPECT_GT(anomalies, rounds / 10) << "too few bad histories to prove anything";
  EXPECT_LT(anomalies, rounds * 9 / 10) << "too few good histories to prove anything";
}

TEST(LinearizabilityTest, LongHistoriesAreCheckedByBothAlgorithms) {
  SCOPED_TRACE(SeedNote());
  Random random("linearizability-long");
  for (int round = 0; round < 20; ++round) {
    History history = RandomHistory(random, Scaled(2'000), false, 0);
    std::erase_if(history, [](const RegisterOp& op) { return op.return_ns == kNeverReturned; });
    history.insert(history.begin(), RegisterOp::Write(1'000'000).At(-500, -400));
    std::erase_if(history, [](const RegisterOp& op) {
      return op.require == RegisterOp::Require::kEquals && op.operand == kAbsent;
    });
    const uint64_t unread = 2'000'000;
    ASSERT_TRUE(HasUniqueWrites(history, kAbsent));
    const auto zones = FindAnomalyByZones(history, kAbsent);
    ASSERT_EQ(zones.has_value(), FindAnomalyJustInTime(history, kAbsent).has_value());
    history.push_back(RegisterOp::Read(unread).At(0, 1));
    EXPECT_NE(FindAnomalyByZones(history, kAbsent), std::nullopt);
    EXPECT_NE(FindAnomalyJustInTime(history, kAbsent), std::nullopt);
  }
}

}  // namespace
}  // namespace lodgekv::test
