// The radix tree under every schedule with few preemptions: a reader beside writers that change
// its structure in each way. Threads change at each search in a node, whether a reader's or that
// of a writer who publishes, and at each look at a leaf's key.
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "index/art/check.h"
#include "index/art/tree.h"
#include "tests/crash/schedule/scheduled_calls.h"
#include "tests/crash/schedule/scheduler.h"
#include "tests/crash/schedule/strategies.h"

namespace lodgekv::test {
namespace {

struct Lower {
  std::string low;
};
struct TextOfLower {
  std::string_view operator()(const Lower* lower) const {
    Scheduler::Point(PointKind::kRecord);
    return lower->low;
  }
};
using Tree = art::Tree<Lower, TextOfLower>;

// A key that a writer inserts if it is absent, and otherwise removes; with '!' exchanges.
using Change = std::string;
struct Scenario {
  const char* what;
  std::set<std::string> initial;
  std::vector<Change> changes;
  std::vector<std::string> wanted;
};

const std::string kLong = "0123456789abcdef";

const std::vector<Scenario> kScenarios = {
    {"a leaf splits, and its node goes",
     {"b5"},
     {"b1", "b7", "a", "c", "b", "b51", "b5", "b5!"},
     {"b3", "b5", "b9"}},
    {"a prefix splits, and is whole again",
     {"a", "bcdef1", "bcdef2", "bd"},
     {"bcx", "bc", "bd", "bcdef1"},
     {"bcdef15", "bcdef2", "bce", "bcy", "bcdee"}},
    {"a node grows",
     {"k1", "k2", "k3", "k4"},
     {"k0", "k5", "k25", "k", "k2!"},
     {"k15", "k4", "k9", "k"}},
    {"a node shrinks", {"a", "k1", "k2", "k3", "k4", "k5"}, {"k1", "k5", "k3", "k"}, {"k15", "k4"}},
    {"the way goes to the left",
     {"a1", "a2", "a23", "b5", "b6", "c"},
     {"a2", "a23", "a29", "b2", "b5", "b6", "b"},
     {"b3", "b4", "b", "a22"}},
    {"keys part within a prefix that no node holds",
     {"0", kLong + "1", kLong + "2", "1"},
     {kLong + "1", kLong.substr(0, 12) + "W", kLong.substr(0, 12), kLong.substr(0, 4)},
     {kLong.substr(0, 12) + "X", kLong.substr(0, 12), kLong + "15", kLong.substr(0, 14) + "z"}},
};

class ArtScheduleTest : public ::testing::TestWithParam<Scenario> {
 protected:
  // The greatest of the initial keys and those of the changes with a bit in `done` that is at most
  // `wanted`, or below it. Empty: none.
  std::string Expected(const std::vector<Change>& changes, unsigned done, const std::string& wanted,
                       bool or_equal) const {
    std::set<std::string> keys = GetParam().initial;
    for (size_t i = 0; i < changes.size(); ++i) {
      if ((done >> i & 1) != 0) Apply(changes[i], &keys);
    }
    auto at = or_equal ? keys.upper_bound(wanted) : keys.lower_bound(wanted);
    return at == keys.begin() ? "" : *std::prev(at);
  }
  static void Apply(const Change& change, std::set<std::string>* keys) {
    if (change.back() == '!') return;
    if (!keys->insert(change).second) keys->erase(change);
  }

  void Begin() {
    tree_.emplace(arena_.emplace());
    lowers_.clear();
    for (const std::string& key : GetParam().initial) {
      ASSERT_TRUE(tree_->Insert(key, &lowers_.emplace_back(Lower{key})));
    }
  }
  void Make(const Change& change, Lower* lower) {
    const bool there = GetParam().initial.contains(lower->low);
    if (change.back() == '!') {
      EXPECT_NE(tree_->Replace(lower->low, lower), nullptr);
    } else if (there) {
      EXPECT_NE(tree_->Remove(lower->low), nullptr);
    } else {
      EXPECT_TRUE(tree_->Insert(lower->low, lower));
    }
  }
  void RunAll(const std::vector<Change>& changes, const std::string& wanted, unsigned preemptions);
  void RunOne(const std::vector<Change>& changes, const std::string& wanted, Strategy& strategy);

  Scheduler scheduler_{3};
  const ScheduledWaits waits_;
  std::optional<DramArena> arena_;
  std::optional<Tree> tree_;
  std::deque<Lower> lowers_;
  uint64_t waits_seen_ = 0;
};

void ArtScheduleTest::RunOne(const std::vector<Change>& changes, const std::string& wanted,
                             Strategy& strategy) {
  ASSERT_NO_FATAL_FAILURE(Begin());
  std::string found[2];
  std::vector<std::function<void()>> bodies = {[&] {
    const Lower* floor = tree_->Floor(wanted);
    if (floor != nullptr) found[1] = floor->low;
    const Lower* before = tree_->Before(wanted);
    if (before != nullptr) found[0] = before->low;
  }};
  for (const Change& change : changes) {
    Lower* lower = &lowers_.emplace_back(Lower{change.substr(0, change.find('!'))});
    bodies.push_back([this, &change, lower] { Make(change, lower); });
  }
  while (bodies.size() < 3) bodies.emplace_back([] {});
  const auto& run = scheduler_.Execute(bodies, strategy);
  waits_seen_ += run.points[static_cast<size_t>(PointKind::kWait)];
  ASSERT_FALSE(run.stuck) << run.ToString();
  for (const bool or_equal : {false, true}) {
    std::set<std::string> right;
    for (unsigned done = 0; done < 1u << changes.size(); ++done) {
      right.insert(Expected(changes, done, wanted, or_equal));
    }
    ASSERT_TRUE(right.contains(found[or_equal])) << found[or_equal] << " by " << run.ToString();
  }
  const auto checked = art::Checker(*tree_).Check();
  ASSERT_TRUE(checked.ok()) << checked << " by " << run.ToString();
  std::set<std::string> keys = GetParam().initial;
  for (const Change& change : changes) Apply(change, &keys);
  ASSERT_EQ(tree_->size(), keys.size());
  for (const std::string& key : keys) ASSERT_EQ(tree_->Floor(key)->low, key) << run.ToString();
}

void ArtScheduleTest::RunAll(const std::vector<Change>& changes, const std::string& wanted,
                             unsigned preemptions) {
  SCOPED_TRACE(::testing::PrintToString(changes) + ", " + wanted);
  BoundedExhaustive strategy(preemptions);
  do {
    ASSERT_NO_FATAL_FAILURE(RunOne(changes, wanted, strategy));
  } while (strategy.Next());
}

TEST_P(ArtScheduleTest, AReaderBesideOneChange) {
  for (const Change& change : GetParam().changes) {
    for (const std::string& wanted : GetParam().wanted) {
      ASSERT_NO_FATAL_FAILURE(RunAll({change}, wanted, 2));
    }
  }
}

TEST_P(ArtScheduleTest, AReaderBesideTwoChanges) {
  const auto& changes = GetParam().changes;
  for (size_t i = 0; i < changes.size(); ++i) {
    for (size_t j = i + 1; j < changes.size(); ++j) {
      if (changes[i] + '!' == changes[j]) continue;
      for (const std::string& wanted : GetParam().wanted) {
        ASSERT_NO_FATAL_FAILURE(RunAll({changes[i], changes[j]}, wanted, 1));
      }
    }
  }
  EXPECT_GT(waits_seen_, 0u);
}

INSTANTIATE_TEST_SUITE_P(All, ArtScheduleTest, ::testing::ValuesIn(kScenarios),
                         [](const auto& its) { return "Scenario" + std::to_string(its.index); });

}  // namespace
}  // namespace lodgekv::test
