// What PiBench relies on, for the wrapper of each registered engine.

#include "tests/pibench/wrapper.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <thread>

#include "tests/support/random.h"
#include "tests/support/threads.h"

namespace lodgekv::test {
namespace {

// A value that tells its number and who wrote it.
std::string ValueOf(uint64_t number, uint64_t writer, size_t size = 8) {
  std::string value = KeyOf(number * 1000 + writer);
  value.resize(size, static_cast<char>('a' + writer % 26));
  return value;
}

// Sizes of key and value: the one that lies in fixed64, PiBench's default of old, long ones.
using Sizes = std::pair<size_t, size_t>;
constexpr std::array<Sizes, 4> kSizes = {{{8, 8}, {4, 4}, {8, 100}, {32, 1000}}};

Pairs Expected(const std::map<std::string, std::string>& map, const std::string& key, size_t most) {
  Pairs pairs;
  for (auto it = map.lower_bound(key); it != map.end() && pairs.size() < most; ++it) {
    pairs.push_back(*it);
  }
  return pairs;
}

// One operation on the tree and on the map; both must answer alike.
void StepBoth(tree_api& tree, std::map<std::string, std::string>& map, Sizes sizes, uint64_t step,
              Random& random) {
  const std::string key = KeyOf(random.Below(500) * 0x1003f, sizes.first);
  const std::string value = ValueOf(step, 7, sizes.second);
  switch (random.Below(5)) {
    case 0: ASSERT_EQ(Insert(tree, key, value), map.emplace(key, value).second); break;
    case 1: {
      const auto there = map.find(key);
      ASSERT_EQ(Update(tree, key, value), there != map.end());
      if (there != map.end()) there->second = value;
      break;
    }
    case 2: ASSERT_EQ(Remove(tree, key), map.erase(key) == 1); break;
    case 3: {
      const auto there = map.find(key);
      const auto found = Find(tree, key, sizes.second);
      ASSERT_EQ(found.has_value(), there != map.end());
      if (found.has_value()) {
        ASSERT_EQ(*found, there->second);
      }
      break;
    }
    default: {
      const int most = static_cast<int>(random.Below(40));
      ASSERT_EQ(Scan(tree, key, most, sizes.second), Expected(map, key, static_cast<size_t>(most)));
    }
  }
}

TEST_P(WrapperTest, AnswersAsAMapDoes) {
  for (const Sizes& sizes : kSizes) {
    SCOPED_TRACE(SeedNote() + " sizes " + std::to_string(sizes.first) + " and " +
                 std::to_string(sizes.second));
    const Tree tree =
        Create(Options(sizes.first, sizes.second,
                       "p" + std::to_string(sizes.first) + "_" + std::to_string(sizes.second)));
    ASSERT_NE(tree, nullptr);
    std::map<std::string, std::string> map;
    Random random("pibench", sizes.first * 10000 + sizes.second);
    const uint64_t steps = Scaled(20000);
    for (uint64_t step = 0; step < steps; ++step) {
      StepBoth(*tree, map, sizes, step, random);
      if (HasFatalFailure()) return;
    }
    EXPECT_EQ(Scan(*tree, KeyOf(0, sizes.first), 1000, sizes.second), Expected(map, "", 1000));
  }
}

TEST_P(WrapperTest, ScansInTheOrderOfBytes) {
  const Tree tree = Create(Options());
  ASSERT_NE(tree, nullptr);
  const std::vector<std::string> keys = {KeyOf(1), KeyOf(255), KeyOf(256), KeyOf(uint64_t{1} << 63),
                                         KeyOf(UINT64_MAX)};
  for (const size_t i : {4, 2, 0, 3, 1}) ASSERT_TRUE(Insert(*tree, keys[i], KeyOf(i)));
  const Pairs pairs = Scan(*tree, KeyOf(0), 10, 8);
  ASSERT_EQ(pairs.size(), keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(pairs[i].first, keys[i]);
    EXPECT_EQ(pairs[i].second, KeyOf(i));
  }
  EXPECT_TRUE(Scan(*tree, KeyOf(0), 0, 8).empty());
  EXPECT_EQ(Scan(*tree, KeyOf(UINT64_MAX), 10, 8).size(), 1u);
}

// A persistent engine keeps what it holds (PiBench's --skip_load), a volatile one begins anew.
TEST_P(WrapperTest, IsCreatedAgainAndAgain) {
  constexpr uint64_t kRounds = 12;
  constexpr uint64_t kKeys = 200;
  for (uint64_t round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(round);
    const Tree tree = Create(Options());
    ASSERT_NE(tree, nullptr);
    for (uint64_t i = 0; i < round * kKeys; ++i) {
      const auto found = Find(*tree, KeyOf(i), 8);
      ASSERT_EQ(found.has_value(), persistent()) << i;
      if (!found.has_value()) continue;
      ASSERT_EQ(*found, ValueOf(i, i / kKeys));
    }
    for (uint64_t i = round * kKeys; i < (round + 1) * kKeys; ++i) {
      ASSERT_TRUE(Insert(*tree, KeyOf(i), ValueOf(i, round)));
    }
  }
}

TEST_P(WrapperTest, TwoTreesInOneProcessKnowNothingOfEachOther) {
  const Tree one = Create(Options(8, 8, "one"));
  const Tree two = Create(Options(8, 16, "two"));
  ASSERT_NE(one, nullptr);
  ASSERT_NE(two, nullptr);
  ASSERT_TRUE(Insert(*one, KeyOf(1), ValueOf(1, 1)));
  EXPECT_FALSE(Find(*two, KeyOf(1), 16).has_value());
  ASSERT_TRUE(Insert(*two, KeyOf(1), ValueOf(1, 2, 16)));
  EXPECT_EQ(Find(*one, KeyOf(1), 8), ValueOf(1, 1));
  EXPECT_EQ(Find(*two, KeyOf(1), 16), ValueOf(1, 2, 16));
}

constexpr uint32_t kThreads = 64;

// What each thread of the next test does: its own keys, and its share of those that all want.
void WorkAlone(tree_api& tree, uint32_t thread, uint64_t keys) {
  for (uint64_t i = 0; i < keys; ++i) {
    const uint64_t number = i * kThreads + thread;
    ASSERT_TRUE(Insert(tree, KeyOf(number), ValueOf(number, thread)));
    if (i % 3 == 1) {
      ASSERT_TRUE(Update(tree, KeyOf(number), ValueOf(number, thread + kThreads)));
    } else if (i % 3 == 2) {
      ASSERT_TRUE(Remove(tree, KeyOf(number)));
    }
    ASSERT_EQ(Find(tree, KeyOf(number), 8).has_value(), i % 3 != 2);
    if (i % 16 != 0) continue;
    const Pairs pairs = Scan(tree, KeyOf(number), 20, 8);
    if (i % 3 != 2) {
      ASSERT_FALSE(pairs.empty());
      ASSERT_EQ(pairs.front().first, KeyOf(number));
    }
    ASSERT_TRUE(std::is_sorted(pairs.begin(), pairs.end()));
  }
}

TEST_P(WrapperTest, SixtyFourThreads) {
  constexpr uint64_t kShared = 500;
  constexpr uint64_t kFirstShared = uint64_t{1} << 40;
  const uint64_t keys = std::max<uint64_t>(Scaled(300), 30);
  tree_options_t options = Options();
  options.num_threads = kThreads;
  Tree tree = Create(options);
  ASSERT_NE(tree, nullptr);
  std::atomic<uint64_t> inserted{0};
  RunTogether(kThreads, [&](uint32_t thread) {
    WorkAlone(*tree, thread, keys);
    for (uint64_t i = 0; i < kShared; ++i) {
      if (Insert(*tree, KeyOf(kFirstShared + i), ValueOf(i, thread))) ++inserted;
    }
  });
  EXPECT_EQ(inserted.load(), kShared) << "each key is inserted by one thread alone";
  if (persistent()) {
    tree.reset();
    tree = Create(options);
    ASSERT_NE(tree, nullptr);
  }
  for (uint64_t number = 0; number < keys * kThreads; ++number) {
    const uint64_t i = number / kThreads;
    const uint64_t thread = number % kThreads;
    const auto found = Find(*tree, KeyOf(number), 8);
    ASSERT_EQ(found.has_value(), i % 3 != 2) << number;
    if (!found.has_value()) continue;
    ASSERT_EQ(*found, ValueOf(number, i % 3 == 1 ? thread + kThreads : thread)) << number;
  }
  EXPECT_EQ(Scan(*tree, KeyOf(kFirstShared), 1000, 8).size(), kShared);
}

// The buffer of a scan belongs to its thread: another thread's scan leaves it alone.
TEST_P(WrapperTest, AScanStaysUntilItsThreadsNext) {
  const Tree tree = Create(Options());
  ASSERT_NE(tree, nullptr);
  for (uint64_t i = 0; i < 300; ++i) ASSERT_TRUE(Insert(*tree, KeyOf(i), ValueOf(i, 1)));
  char* here = nullptr;
  ASSERT_EQ(tree->scan(KeyOf(0).data(), 8, 100, here), 100);
  const std::string before(here, 1600);
  std::thread other([&] { EXPECT_EQ(Scan(*tree, KeyOf(150), 100, 8).size(), 100u); });
  other.join();
  EXPECT_EQ(std::string(here, 1600), before);
}

using DiscardingWrapperTest = WrapperTest;

TEST_P(DiscardingWrapperTest, TakesEverythingAndHoldsNothing) {
  const Tree tree = Create(Options());
  ASSERT_NE(tree, nullptr);
  EXPECT_TRUE(Insert(*tree, KeyOf(1), KeyOf(2)));
  EXPECT_FALSE(Find(*tree, KeyOf(1), 8).has_value());
  EXPECT_FALSE(Remove(*tree, KeyOf(1)));
  EXPECT_TRUE(Scan(*tree, KeyOf(0), 10, 8).empty());
}

INSTANTIATE_TEST_SUITE_P(Engines, WrapperTest, ::testing::ValuesIn(StoringEngines()), EngineName);
INSTANTIATE_TEST_SUITE_P(Engines, DiscardingWrapperTest, ::testing::ValuesIn(DiscardingEngines()),
                         EngineName);

}  // namespace
}  // namespace lodgekv::test
