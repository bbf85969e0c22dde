// Scans while others write: in order, no key twice, every key that exists throughout, and each
// value was current meanwhile.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/conformance/conformance_fixture.h"
#include "tests/support/threads.h"

namespace lodgekv::test {
namespace {

constexpr uint32_t kWriters = 2;
constexpr uint32_t kScanners = 2;

class ConcurrentScanTest : public ConformanceTest {
 protected:
  // Keys with an even number always exist and are overwritten; the others are put and deleted. Each
  // has one writer, which puts ascending ids.
  struct KeyState {
    std::atomic<uint64_t> started{0};   // the last id whose put was called
    std::atomic<uint64_t> returned{0};  // the last whose put has returned
  };

  static bool Stays(uint64_t number) { return number % 2 == 0; }
  static uint64_t IdFor(uint64_t number, uint64_t count) { return number << 32 | count; }
  static uint64_t NumberOf(uint64_t id) { return id >> 32; }

  void SetUp() override {
    ConformanceTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    states_ = std::vector<KeyState>(keys_);
    for (uint64_t number = 0; number < keys_; number += 2) PutNext(number);
  }

  void PutNext(uint64_t number) {
    KeyState& state = states_[number];
    const uint64_t id = IdFor(number, (state.started.load() & 0xFFFFFFFF) + 1);
    state.started.store(id);
    EXPECT_EQ(Put(engine(), Key(number), Value(id, 8 + id % 60)).outcome, Outcome::kOk);
    state.returned.store(id);
  }

  void WriteUntilDone(uint32_t writer) {
    Random random("scan-writer", writer);
    while (scanning_.load() > 0) {
      const uint64_t number = random.Below(keys_ / kWriters) * kWriters + writer;
      if (Stays(number) || random.OneIn(2)) {
        PutNext(number);
      } else {
        EXPECT_EQ(Delete(engine(), Key(number)).outcome, Outcome::kOk);
      }
    }
  }

  void ScanOnce(Random& random, bool reverse) {
    uint64_t begin = 0;
    uint64_t end = keys_;
    if (random.OneIn(2)) {
      begin = random.Below(keys_);
      end = random.Between(begin, keys_);
    }
    std::vector<uint64_t> before(keys_);
    for (uint64_t number = 0; number < keys_; ++number) before[number] = states_[number].returned;
    const std::string start_key = Key(begin);
    const std::string end_key = Key(end);
    std::vector<Pair> seen =
        ScanAll(engine(), {.start = start_key, .end = end_key, .reverse = reverse});
    if (reverse) std::reverse(seen.begin(), seen.end());
    uint64_t stable_seen = 0;
    std::optional<uint64_t> last;
    for (const Pair& pair : seen) {
      const uint64_t id = IdOf(pair.value);
      const uint64_t number = NumberOf(id);
      ASSERT_EQ(pair.key, Key(number)) << "a value of another key";
      ASSERT_EQ(pair.value, Value(id, 8 + id % 60)) << "a value that nobody put";
      ASSERT_TRUE(number >= begin && number < end) << number << " is out of bounds";
      ASSERT_TRUE(!last || *last < number) << number << " comes after " << *last;
      ASSERT_LE(id, states_[number].started.load()) << "a value from the future";
      ASSERT_GE(id, before[number]) << "a value that was replaced before the scan began";
      last = number;
      if (Stays(number)) ++stable_seen;
    }
    const uint64_t stable = (end + 1) / 2 - (begin + 1) / 2;
    ASSERT_EQ(stable_seen, stable) << "keys that were there throughout are missing";
  }

  void ScanMany(uint32_t scanner) {
    Random random("scanner", scanner);
    for (uint64_t round = 0; round < Scaled(300) && !HasFailure(); ++round) {
      ScanOnce(random, random.OneIn(2));
    }
    scanning_.fetch_sub(1);
  }

  const uint64_t keys_ = kSanitizerSlowdown > 1 ? 400 : 3'000;
  std::vector<KeyState> states_;
  std::atomic<uint32_t> scanning_{kScanners};
};

TEST_P(ConcurrentScanTest, SeesWhatIsThereThroughout) {
  RunTogether(kWriters + kScanners, [this](uint32_t thread) {
    if (thread < kWriters) {
      WriteUntilDone(thread);
    } else {
      ScanMany(thread);
    }
  });
}

TEST_P(ConcurrentScanTest, NewKeysEverywhereMakeNodesSplitUnderTheScan) {
  // Each writer inserts keys between the permanent ones; the scans must see all of those, in order.
  std::atomic<bool> scanning{true};
  RunTogether(3, [&](uint32_t thread) {
    if (thread == 0) {
      Random random("split-scanner");
      for (uint64_t round = 0; round < Scaled(200); ++round) {
        const bool reverse = random.OneIn(2);
        const std::vector<std::string> seen = ScanKeys(engine(), {.reverse = reverse});
        size_t stable = 0;
        for (size_t i = 0; i < seen.size(); ++i) {
          const bool ordered = i == 0 || (reverse ? seen[i - 1] > seen[i] : seen[i - 1] < seen[i]);
          ASSERT_TRUE(ordered) << seen[i] << " after " << seen[i - 1];
          if (stable < keys_ / 2) {
            const uint64_t next = reverse ? (keys_ - 1) / 2 * 2 - 2 * stable : 2 * stable;
            if (seen[i] == Key(next)) ++stable;
          }
        }
        ASSERT_EQ(stable, keys_ / 2);
      }
      scanning = false;
      return;
    }
    // Ascending from some key, so that one place splits repeatedly, then from another.
    Random random("split-writer", thread);
    while (scanning) {
      const uint64_t begin = random.Below(keys_);
      for (uint64_t number = begin; number < begin + 100 && number < keys_ * 2; ++number) {
        if (number < keys_ && Stays(number)) continue;
        const std::string key = Key(number);
        if (random.OneIn(8)) {
          EXPECT_EQ(Delete(engine(), key).outcome, Outcome::kOk);
        } else {
          EXPECT_EQ(Put(engine(), key, Value(1)).outcome, Outcome::kOk);
        }
      }
    }
  });
}

TEST_P(ConcurrentScanTest, CheckCountAndCountersRunBesideWrites) {
  std::atomic<bool> writing{true};
  RunTogether(3, [&](uint32_t thread) {
    if (thread < 2) {
      Random random("check-writer", thread);
      for (uint64_t i = 0; i < Scaled(40'000); ++i) {
        const uint64_t number = random.Below(keys_ / 2) * 2 + thread;
        if (thread == 1 && random.OneIn(3)) {
          EXPECT_EQ(Delete(engine(), Key(number)).outcome, Outcome::kOk);
        } else {
          PutNext(number);
        }
      }
      writing = false;
      return;
    }
    do {
      const CheckReport report = engine().Check();
      for (const std::string& problem : report.problems) ADD_FAILURE() << "Check: " << problem;
      EXPECT_GE(report.keys, keys_ / 2);
      EXPECT_LE(report.keys, keys_);
      const uint64_t count = engine().CountKeys();
      EXPECT_GE(count, keys_ / 2);
      EXPECT_LE(count, keys_);
      engine().VisitCounters([](const CounterSample& sample) { EXPECT_GE(sample.value, 0); });
      EXPECT_GT(engine().GetMemoryUse().dram_bytes, 0u);
      EXPECT_EQ(engine().AppliedIndex(), 0u);
    } while (writing && !HasFailure());
  });
}

INSTANTIATE_TEST_SUITE_P(Engines, ConcurrentScanTest, ::testing::ValuesIn(StoringCases()),
                         EngineCaseName());

}  // namespace
}  // namespace lodgekv::test
