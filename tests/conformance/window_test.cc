// Stores must not grow if their content does not: windows that slide over the keys (a queue, a time
// series, values that expire), and values whose sizes change.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <deque>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/conformance/conformance_fixture.h"
#include "tests/conformance/footprint.h"

namespace lodgekv::test {
namespace {

class WindowTest : public ConformanceTest {
 protected:
  WindowTest() : random_("window") {}

  static constexpr int kWindows = 10;
  // Free space in chunks that are in use goes up and down from one to the next.
  static constexpr int kFirstWindows = 3;

  HarnessOptions Options() const override {
    return {.memory_bytes = uint64_t{96} << 20, .chunk_bytes = uint64_t{64} << 10};
  }

  uint64_t alive() const { return Scaled(GetParam().small_nodes ? 4'000 : 20'000); }

  void PutKey(uint64_t number) {
    ASSERT_EQ(Put(engine(), Key(number), Value(number)).outcome, Outcome::kOk) << number;
  }
  void DeleteKey(uint64_t number) {
    const WriteResult deleted = Delete(engine(), Key(number));
    ASSERT_EQ(deleted.outcome, Outcome::kOk) << number;
    ASSERT_TRUE(deleted.found) << number;
  }

  Footprint Look() { return FootprintOf(harness()); }

  // Retired space is freed by another thread.
  static void LetReclaimAt(uint64_t step) {
    if (step % 512 == 0) LetReclaim();
  }
  // Window by window: put(i) and drop(i) return the key to put and to delete in the i-th step.
  template <class NumberOf>
  void Slide(NumberOf number_of) {
    const uint64_t size = alive();
    std::deque<uint64_t> window;
    Footprint first{};
    for (int round = 0; round <= kWindows; ++round) {
      for (uint64_t i = 0; i < size; ++i) {
        LetReclaimAt(i);
        const uint64_t number = number_of(static_cast<uint64_t>(round), i);
        ASSERT_NO_FATAL_FAILURE(PutKey(number));
        window.push_back(number);
        if (window.size() <= size) continue;
        ASSERT_NO_FATAL_FAILURE(DeleteKey(window.front()));
        window.pop_front();
      }
      if (round >= 1 && round <= kFirstWindows) first = LargerOf(first, Look());
    }
    ExpectNoGrowth(first, Look());
    EXPECT_EQ(engine().CountKeys(), size);
    ExpectSound();
  }

  Random random_;
};

TEST_P(WindowTest, Ascending) {
  Slide([&](uint64_t round, uint64_t i) { return round * alive() + i; });
}

TEST_P(WindowTest, Descending) {
  const uint64_t top = (kWindows + 1) * alive();
  Slide([&](uint64_t round, uint64_t i) { return top - (round * alive() + i); });
}

// Each window at another place, never where one has been.
TEST_P(WindowTest, Jumping) {
  std::vector<uint64_t> bases;
  for (uint64_t round = 0; round <= kWindows; ++round) bases.push_back(round * 3 * alive());
  for (size_t i = bases.size(); i > 1; --i) std::swap(bases[i - 1], bases[random_.Below(i)]);
  Slide([&](uint64_t round, uint64_t i) { return bases[round] + i; });
}

TEST_P(WindowTest, ComingBack) {
  Slide([&](uint64_t round, uint64_t i) { return (round % 3) * alive() + i; });
}

// In random order within a window, so that leaves empty in places.
TEST_P(WindowTest, Shuffled) {
  const uint64_t size = alive();
  Slide([&](uint64_t round, uint64_t i) {
    constexpr uint64_t kPrime = 1'000'003;  // larger than any window
    return round * size + (i * kPrime) % size;
  });
}

// One thread puts, one deletes: what is busy at one moment must be freed at another.
TEST_P(WindowTest, TwoThreads) {
  const uint64_t size = alive();
  const uint64_t keys = (kWindows + 1) * size;
  std::atomic<uint64_t> put{0};
  std::atomic<uint64_t> deleted{0};
  Footprint first{};
  for (uint64_t end = 2 * size; end <= keys; end += size) {
    std::thread deleter([&] {
      for (uint64_t number = end - 2 * size; number < end - size; ++number) {
        while (put.load() < number + size / 2) std::this_thread::yield();
        const WriteResult result = Delete(engine(), Key(number));
        if (result.outcome != Outcome::kOk || !result.found) ADD_FAILURE() << number;
        deleted.fetch_add(1);
      }
    });
    for (uint64_t number = put.load(); number < end; ++number) {
      LetReclaimAt(number);
      while (number > deleted.load() + size * 21 / 20) std::this_thread::yield();
      EXPECT_EQ(Put(engine(), Key(number), Value(number)).outcome, Outcome::kOk);
      put.store(number + 1);
    }
    deleter.join();
    if (end == 2 * size) first = Look();
  }
  ExpectNoGrowth(first, Look());
  EXPECT_EQ(engine().CountKeys(), size);
  ExpectSound();
}

// The same in groups, which use other code paths of an engine.
TEST_P(WindowTest, Groups) {
  constexpr uint64_t kGroup = 64;
  const uint64_t size = (alive() + kGroup - 1) / kGroup * kGroup;
  Footprint first{};
  for (uint64_t begin = 0; begin < (kWindows + 1) * size; begin += kGroup) {
    std::vector<std::string> keys;
    std::vector<std::string> values;
    std::vector<std::string> gone;
    LetReclaimAt(begin * 8);
    for (uint64_t i = begin; i < begin + kGroup; ++i) {
      keys.push_back(Key(i));
      values.push_back(Value(i));
      if (begin >= size) gone.push_back(Key(i - size));
    }
    std::vector<WriteOp> ops;
    for (size_t i = 0; i < keys.size(); ++i) ops.push_back(PutOp(keys[i], values[i]));
    for (const std::string& key : gone) ops.push_back(DeleteOp(key));
    for (const WriteResult& result : Group(engine(), ops)) ASSERT_EQ(result.outcome, Outcome::kOk);
    if (begin + kGroup == 2 * size) first = Look();
  }
  ExpectNoGrowth(first, Look());
  EXPECT_EQ(engine().CountKeys(), size);
  ExpectSound();
}

// The same keys, whose values change their sizes: freed records of one size must be usable for
// others. A pool takes a chunk from one size class when another needs it, so the pool is not much
// larger than its content.
class ChurnTest : public WindowTest {
 protected:
  static constexpr size_t kSmallest = 10;
  static constexpr size_t kLargest = 2'000;
  static constexpr uint64_t kKeys = 6'000;

  HarnessOptions Options() const override {
    return {.memory_bytes = uint64_t{24} << 20, .chunk_bytes = uint64_t{64} << 10};
  }

  // Puts all of them, in any order.
  template <class SizeOf>
  void PutAll(SizeOf size_of) {
    std::vector<uint64_t> order(kKeys);
    for (uint64_t i = 0; i < order.size(); ++i) order[i] = i;
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_.Below(i)]);
    for (const uint64_t number : order) {
      const std::string value = Value(number, size_of());
      Outcome outcome = Put(engine(), Key(number), value).outcome;
      // Space becomes free a moment after it was retired.
      for (int retry = 0; retry < 50 && outcome == Outcome::kPoolFull; ++retry) {
        LetReclaim();
        outcome = Put(engine(), Key(number), value).outcome;
      }
      ASSERT_EQ(outcome, Outcome::kOk) << number << ", " << value.size() << " bytes";
    }
  }

  static void ExpectNoGrowth(const Footprint& first, const Footprint& now) {
    Footprint in_use = now;
    in_use.chunks = 0;
    test::ExpectNoGrowth(first, in_use);
  }
};

TEST_P(ChurnTest, SizesAtRandom) {
  Footprint first{};
  for (int round = 0; round <= kWindows; ++round) {
    ASSERT_NO_FATAL_FAILURE(PutAll([&] { return random_.Between(kSmallest, kLargest); }));
    if (round == 1) first = Look();
  }
  ExpectNoGrowth(first, Look());
  ExpectSound();
}

// All of one size at a time: the others' space becomes whole chunks.
TEST_P(ChurnTest, SizesByTurns) {
  Footprint first{};
  int round = 0;
  for (const size_t bytes : {kLargest, kLargest, kSmallest, size_t{500}, size_t{1'200}, size_t{40},
                             size_t{900}, size_t{100}, size_t{1'700}, size_t{300}, kLargest}) {
    ASSERT_NO_FATAL_FAILURE(PutAll([&] { return bytes; }));
    if (++round == 2) first = Look();
  }
  ExpectNoGrowth(first, Look());
  ExpectSound();
}

std::vector<EngineCase> PersistentBytesCases() {
  std::vector<EngineCase> cases = PersistentCases();
  std::erase_if(cases, [](const EngineCase& engine_case) { return engine_case.fixed64(); });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Engines, WindowTest, ::testing::ValuesIn(PersistentCases()),
                         EngineCaseName());
INSTANTIATE_TEST_SUITE_P(Engines, ChurnTest, ::testing::ValuesIn(PersistentBytesCases()),
                         EngineCaseName());
// A build may have volatile engines only.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(WindowTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ChurnTest);

}  // namespace
}  // namespace lodgekv::test
