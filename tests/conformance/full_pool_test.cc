// A full pool: puts are refused and leave nothing, other operations still work, and freed space is
// reused, repeatedly.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "index/cost.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/conformance/footprint.h"

namespace lodgekv::test {
namespace {

class FullPoolTest : public ConformanceTest {
 protected:
  FullPoolTest() : random_("full-pool") {}

  HarnessOptions Options() const override {
    return {.memory_bytes = uint64_t{4} << 20, .chunk_bytes = uint64_t{16} << 10};
  }

  std::string NextValue(size_t largest = 200) {
    return Value(++last_id_, 8 + random_.Below(largest));
  }

  // Puts, and mirrors the put in the model if it was applied.
  Outcome PutMirrored(const std::string& key, const std::string& value) {
    const Outcome outcome = Put(engine(), key, value).outcome;
    if (outcome == Outcome::kOk) model_[key] = value;
    return outcome;
  }

  // Space becomes free some time after it was released, so only a repeated refusal counts. On a
  // busy machine the thread that frees it may get no turn for long: where there must be space that
  // is waited for.
  static constexpr int kFewRetries = 10;
  static constexpr int kForSeconds = 5'000;
  Outcome PutPatiently(const std::string& key, const std::string& value,
                       int retries = kFewRetries) {
    Outcome outcome = PutMirrored(key, value);
    for (int retry = 0; retry < retries && outcome == Outcome::kPoolFull; ++retry) {
      LetReclaim();
      outcome = PutMirrored(key, value);
    }
    return outcome;
  }

  // Puts new ascending keys until the pool is full; returns the number of keys that fitted.
  uint64_t Fill(size_t largest_value = 200) {
    for (uint64_t keys = 0;; ++keys) {
      const Outcome outcome = PutPatiently(Key(next_key_++), NextValue(largest_value));
      if (outcome == Outcome::kOk) continue;
      EXPECT_EQ(outcome, Outcome::kPoolFull);
      return keys;
    }
  }

  // Keys in random order, so that each needs room in its own leaf; until nearly all are refused.
  void FillUp() {
    constexpr uint64_t kPuts = 1'000;
    for (uint64_t accepted = kPuts; accepted > kPuts / 100;) {
      accepted = 0;
      for (uint64_t i = 0; i < kPuts; ++i) accepted += PutAnywhere() == Outcome::kOk ? 1 : 0;
    }
  }
  Outcome PutAnywhere() { return PutMirrored(Key(random_.Next()), NextValue(16)); }

  void DeleteAll() {
    for (const auto& [key, value] : std::exchange(model_, {})) {
      const WriteResult deleted = Delete(engine(), key);
      ASSERT_EQ(deleted.outcome, Outcome::kOk) << Show(key);
      ASSERT_TRUE(deleted.found) << Show(key);
    }
  }

  void ExpectModel() {
    for (const bool reverse : {false, true}) {
      std::vector<Pair> pairs = ScanAll(engine(), {.reverse = reverse});
      if (reverse) std::reverse(pairs.begin(), pairs.end());
      ASSERT_EQ(pairs.size(), model_.size());
      auto expected = model_.begin();
      for (const Pair& pair : pairs) {
        ASSERT_EQ(pair.key, expected->first);
        ASSERT_TRUE(pair.value == expected->second) << Show(pair.key);
        ++expected;
      }
    }
    for (const auto& [key, value] : model_) {
      const ReadResult read = Get(engine(), key);
      ASSERT_EQ(read.outcome, Outcome::kOk);
      ASSERT_TRUE(read.found && read.value == value) << Show(key);
    }
    ExpectSound();
  }

  std::map<std::string, std::string> model_;
  Random random_;
  uint64_t last_id_ = 0;
  uint64_t next_key_ = 0;
};

TEST_P(FullPoolTest, RefusedPutsLeaveNothingBehind) {
  ASSERT_GT(Fill(), 1'000u);
  ExpectModel();
  for (uint64_t number = 0; number < 500; ++number) {
    const Outcome outcome = PutMirrored(Key(random_.Below(next_key_ * 2)), NextValue(2'000));
    ASSERT_TRUE(outcome == Outcome::kOk || outcome == Outcome::kPoolFull) << outcome;
  }
  ExpectModel();
}

// Counted, not timed: a refused put flushes nothing, and nothing grows.
TEST_P(FullPoolTest, RefusedPutsCostNothingAndTheStoreStaysAsItIs) {
  while (PutAnywhere() == Outcome::kOk) {
  }
  const Footprint first = FootprintOf(harness());
  uint64_t refused = 0;
  Cost cost{};
  for (const uint64_t wanted = Scaled(10'000); refused < wanted;) {
    const Cost before = ThreadCost();
    if (PutAnywhere() == Outcome::kOk) continue;
    ++refused;
    cost = cost + (ThreadCost() - before);
  }
  // Earlier ones have deferred some freeing.
  EXPECT_LE(cost.fences, refused / 10);
  EXPECT_LE(cost.lines_flushed, refused / 5);
  ExpectNoGrowth(first, FootprintOf(harness()));
  ExpectModel();
}

// No operation pays for work that others have deferred in the whole store.
TEST_P(FullPoolTest, DeletesAndPutsInTurnCostWhatTheyAlwaysDo) {
  if (GetParam().small_nodes) GTEST_SKIP() << "a few slots may be no place for a delete";
  FillUp();
  const Footprint first = FootprintOf(harness());
  const uint64_t turns = Scaled(3'000);
  uint64_t accepted = 0;
  Cost most{};
  const auto pay = [&most](const Cost& cost) {
    most.fences = std::max(most.fences, cost.fences);
    most.lines_flushed = std::max(most.lines_flushed, cost.lines_flushed);
  };
  const Cost before = ThreadCost();
  for (uint64_t i = 0; i < turns; ++i) {
    auto victim = model_.lower_bound(Key(random_.Next()));
    if (victim == model_.end()) victim = model_.begin();
    Cost begun = ThreadCost();
    ASSERT_EQ(Delete(engine(), victim->first).outcome, Outcome::kOk) << Show(victim->first);
    pay(ThreadCost() - begun);
    model_.erase(victim);
    begun = ThreadCost();
    accepted += PutAnywhere() == Outcome::kOk ? 1 : 0;
    pay(ThreadCost() - begun);
  }
  const Cost cost = ThreadCost() - before;
  EXPECT_GT(accepted, turns / 20);
  EXPECT_LE(cost.fences, 12 * turns);
  EXPECT_LE(cost.lines_flushed, 60 * turns);
  EXPECT_LE(most.fences, 200u);
  EXPECT_LE(most.lines_flushed, 1'000u);
  ExpectNoGrowth(first, FootprintOf(harness()));
  ExpectModel();
}

// Like a client that loads and empties a store in batches over several connections.
class FullPoolGroupsTest : public FullPoolTest {
 protected:
  static constexpr size_t kThreads = 4;
  static constexpr uint64_t kPutsInGroup = 100;
  // Larger ones may be refused if they are logged as one.
  static constexpr uint64_t kDeletesInGroup = 30;
  static constexpr int kRefusals = 20;
  using Keys = std::vector<std::string>;

  static void OnThreads(const std::function<void(size_t)>& work) {
    std::vector<std::thread> threads;
    for (size_t i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
    for (std::thread& thread : threads) thread.join();
  }

  // Keys in random order: first in groups, then one by one into the remaining space.
  Keys FillOn(size_t thread) {
    Random random("full-pool-groups", thread);
    Keys keys;
    int refused = 0;
    for (uint64_t size = kPutsInGroup; refused < kRefusals;) {
      Keys group;
      for (uint64_t i = 0; i < size; ++i) group.push_back(Key(random.Next()));
      if (PutAll(group)) {
        keys.insert(keys.end(), group.begin(), group.end());
        refused = 0;
        continue;
      }
      refused += size == 1 ? 1 : 0;
      size = 1;
    }
    return keys;
  }

  bool PutAll(const Keys& keys) {
    std::vector<WriteOp> ops;
    for (const std::string& key : keys) ops.push_back(PutOp(key, value_));
    const auto results = Atomic(engine(), ops);
    const auto has = [&](Outcome outcome) {
      return std::ranges::any_of(results, [&](const auto& r) { return r.outcome == outcome; });
    };
    EXPECT_NE(has(Outcome::kOk), has(Outcome::kPoolFull));
    return has(Outcome::kOk);
  }

  void DeleteInGroups(const Keys& keys) {
    for (size_t first = 0; first < keys.size(); first += kDeletesInGroup) {
      std::vector<WriteOp> ops;
      const size_t end = std::min<size_t>(keys.size(), first + kDeletesInGroup);
      for (size_t i = first; i < end; ++i) ops.push_back(DeleteOp(keys[i]));
      for (const WriteResult& result : Atomic(engine(), ops)) {
        ASSERT_EQ(result.outcome, Outcome::kOk) << "at " << first << " of " << keys.size();
        ASSERT_TRUE(result.found);
      }
    }
  }

  const std::string value_ = NextValue(16);
};

TEST_P(FullPoolGroupsTest, DeletesInGroupsAreNeverRefused) {
  if (GetParam().small_nodes) GTEST_SKIP() << "a few slots may be no place for a delete";
  std::vector<Keys> keys(kThreads);
  OnThreads([&](size_t thread) { keys[thread] = FillOn(thread); });
  OnThreads([&](size_t thread) { DeleteInGroups(keys[thread]); });
  ExpectModel();
}

TEST_P(FullPoolTest, DeletedRangeMakesRoomForOtherKeys) {
  const uint64_t keys = Fill();
  const auto middle = std::next(model_.begin(), static_cast<ptrdiff_t>(model_.size() / 2));
  for (auto it = model_.begin(); it != middle; it = model_.erase(it)) {
    const WriteResult deleted = Delete(engine(), it->first);
    ASSERT_EQ(deleted.outcome, Outcome::kOk) << Show(it->first);
    ASSERT_TRUE(deleted.found) << Show(it->first);
  }
  ExpectModel();
  EXPECT_GT(Fill(), keys * 7 / 20) << "half of " << keys << " keys had been deleted";
  ExpectModel();
}

TEST_P(FullPoolTest, EverySecondKeyIsDeletedAndPutAgain) {
  Fill();
  std::map<std::string, std::string> deleted;
  for (auto it = model_.begin(); it != model_.end() && std::next(it) != model_.end();) {
    ASSERT_EQ(Delete(engine(), it->first).outcome, Outcome::kOk) << Show(it->first);
    deleted.insert(*it);
    it = std::next(model_.erase(it));
  }
  ExpectModel();
  uint64_t refused = 0;
  for (const auto& [key, value] : deleted) {
    if (PutPatiently(key, Value(++last_id_, value.size())) != Outcome::kOk) ++refused;
    if (refused > deleted.size() / 20) break;
  }
  EXPECT_LE(refused, deleted.size() / 20)
      << "keys of " << deleted.size() << " do not fit where they were before";
  ExpectModel();
}

TEST_P(FullPoolTest, FillingAndEmptyingLeaksNothing) {
  // A tree may keep a few nodes where keys have been: the share of the pool that a later fill
  // reaches again. Nodes of a few slots waste more of it.
  const uint64_t percent = GetParam().small_nodes ? 70 : 90;
  uint64_t first = 0;
  const int rounds = kSanitizerSlowdown > 1 ? 4 : 10;
  for (int round = 0; round < rounds; ++round) {
    const uint64_t keys = Fill();
    if (round == 0) first = keys;
    EXPECT_GT(keys, first * percent / 100) << "round " << round;
    ExpectModel();
    if (round % 3 == 1) {
      ASSERT_TRUE(harness().KillAndReopen().ok());
      ExpectModel();
    }
    DeleteAll();
    EXPECT_EQ(engine().CountKeys(), 0u);
  }
}

TEST_P(FullPoolTest, RestartsWhenFull) {
  Fill();
  for (const bool clean : {false, true, false}) {
    const absl::Status status = clean ? harness().CloseAndReopen() : harness().KillAndReopen();
    ASSERT_TRUE(status.ok()) << status;
    ExpectModel();
    const Outcome outcome = PutMirrored(Key(next_key_++), NextValue(2'000));
    ASSERT_TRUE(outcome == Outcome::kOk || outcome == Outcome::kPoolFull) << outcome;
  }
  DeleteAll();
  EXPECT_GT(Fill(), 1'000u);
  ExpectModel();
}

TEST_P(FullPoolTest, GroupsAreAppliedAsTheirResultsSay) {
  Fill();
  for (int round = 0; round < 60; ++round) {
    const size_t size = random_.Between(2, 200);
    std::vector<std::string> keys;
    std::vector<std::string> values;
    for (size_t i = 0; i < size; ++i) {
      keys.push_back(Key(next_key_++));
      values.push_back(NextValue(500));
    }
    std::vector<WriteOp> ops;
    for (size_t i = 0; i < size; ++i) ops.push_back(PutOp(keys[i], values[i]));
    const bool atomic = round % 2 == 0;
    const auto results = Group(engine(), ops, {.atomic = atomic});
    size_t applied = 0;
    for (size_t i = 0; i < size; ++i) {
      if (results[i].outcome != Outcome::kOk) continue;
      model_[keys[i]] = values[i];
      ++applied;
    }
    EXPECT_TRUE(!atomic || applied == 0 || applied == size);
    if (round % 10 == 9) {
      for (int victim = 0; victim < 300; ++victim) {
        ASSERT_EQ(Delete(engine(), model_.begin()->first).outcome, Outcome::kOk);
        model_.erase(model_.begin());
      }
      ExpectModel();
    }
  }
  ASSERT_TRUE(harness().KillAndReopen().ok());
  ExpectModel();
}

TEST_P(FullPoolTest, OverwritesOfAHalfFullPoolNeverFillIt) {
  const uint64_t keys = Fill();
  DeleteAll();
  const uint64_t live = keys / 2;
  for (uint64_t i = 0; i < Scaled(100'000); ++i) {
    const std::string key = Key(random_.Below(live));
    ASSERT_EQ(PutPatiently(key, NextValue(), kForSeconds), Outcome::kOk)
        << "after " << i << " overwrites";
  }
  ExpectModel();
}

// A queue: new keys at one end, the oldest deleted at the other, so that nodes become empty for
// good. Ascending keys leave every node half full, which matters if nodes have few slots.
TEST_P(FullPoolTest, QueueInAHalfFullPoolNeverFillsIt) {
  const uint64_t keys = Fill();
  DeleteAll();
  const bool small = GetParam().small_nodes;
  const uint64_t live = small ? keys / 5 : keys / 2;
  const uint64_t writes = Scaled(100'000);
  for (uint64_t i = 0; i < writes; ++i) {
    ASSERT_EQ(PutPatiently(Key(next_key_++), NextValue(), kForSeconds), Outcome::kOk)
        << "after " << i;
    if (model_.size() <= live) continue;
    const WriteResult deleted = Delete(engine(), model_.begin()->first);
    ASSERT_EQ(deleted.outcome, Outcome::kOk) << "after " << i;
    ASSERT_TRUE(deleted.found) << "after " << i;
    model_.erase(model_.begin());
  }
  ExpectModel();
}

class FullPoolBytesTest : public FullPoolTest {
 protected:
  HarnessOptions Options() const override {
    return {.memory_bytes = uint64_t{24} << 20, .chunk_bytes = uint64_t{64} << 10};
  }
};

TEST_P(FullPoolBytesTest, LargeValuesComeAndGo) {
  uint64_t first = 0;
  for (int round = 0; round < 8; ++round) {
    uint64_t values = 0;
    while (PutPatiently(Key(values), Value(++last_id_, size_t{1} << 20)) == Outcome::kOk) ++values;
    if (round == 0) first = values;
    EXPECT_GT(values, 10u);
    EXPECT_EQ(values, first) << "round " << round;
    ExpectModel();
    if (round % 2 == 1) {
      ASSERT_TRUE(harness().KillAndReopen().ok());
      ExpectModel();
    }
    DeleteAll();
  }
}

TEST_P(FullPoolBytesTest, OverwritesOfLargeValuesReuseTheirSpace) {
  for (uint64_t i = 0; i < 200; ++i) {
    const std::string value = Value(++last_id_, (size_t{1} << 20) - random_.Below(1'000));
    ASSERT_EQ(PutPatiently(Key(i % 4), value, kForSeconds), Outcome::kOk)
        << "after " << i << " overwrites";
  }
  ExpectModel();
}

TEST_P(FullPoolBytesTest, ValueLargerThanThePoolIsRefused) {
  ASSERT_EQ(PutMirrored(Key(1), NextValue()), Outcome::kOk);
  for (int i = 0; i < 20; ++i) {
    const std::string first = Value(++last_id_, size_t{15} << 20);
    const std::string second = Value(++last_id_, size_t{15} << 20);
    const std::string keys[] = {Key(2), Key(3)};
    for (const WriteResult& result :
         Atomic(engine(), {PutOp(keys[0], first), PutOp(keys[1], second)})) {
      EXPECT_TRUE(result.outcome == Outcome::kPoolFull || result.outcome == Outcome::kAborted);
    }
  }
  ExpectModel();
  EXPECT_EQ(PutPatiently(Key(4), Value(++last_id_, size_t{10} << 20), kForSeconds), Outcome::kOk);
  ExpectModel();
}

std::vector<EngineCase> PersistentBytesCases() {
  std::vector<EngineCase> cases = PersistentCases();
  std::erase_if(cases, [](const EngineCase& engine_case) { return engine_case.fixed64(); });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Engines, FullPoolTest, ::testing::ValuesIn(PersistentCases()),
                         EngineCaseName());
INSTANTIATE_TEST_SUITE_P(Engines, FullPoolGroupsTest, ::testing::ValuesIn(PersistentCases()),
                         EngineCaseName());
INSTANTIATE_TEST_SUITE_P(Engines, FullPoolBytesTest, ::testing::ValuesIn(PersistentBytesCases()),
                         EngineCaseName());
// A build may have volatile engines only.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FullPoolTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FullPoolGroupsTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FullPoolBytesTest);

}  // namespace
}  // namespace lodgekv::test
