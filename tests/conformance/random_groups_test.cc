// Groups of random operations on few keys: so a group has several operations on one key, and leaves
// fill, split and become empty. No group loses or reorders an operation.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tests/conformance/conformance_fixture.h"

namespace lodgekv::test {
namespace {

constexpr uint64_t kKeys = 400;
constexpr uint64_t kLargestGroup = 90;

class RandomGroupsTest : public ConformanceTest {
 protected:
  RandomGroupsTest() : random_("random groups") {}

  // Keys of an atomic group are all different.
  std::vector<std::string> DrawKeys(size_t count, bool different) {
    std::vector<std::string> keys;
    while (keys.size() < count) {
      std::string key = Key(random_.Below(kKeys));
      if (!different || std::ranges::find(keys, key) == keys.end()) keys.push_back(std::move(key));
    }
    return keys;
  }

  // Writes a group, `deletes` percent of it deletes, and mirrors it in the model.
  void WriteGroup(bool atomic, unsigned deletes) {
    const std::vector<std::string> keys = DrawKeys(random_.Between(1, kLargestGroup), atomic);
    std::vector<std::string> values;
    for (size_t i = 0; i < keys.size(); ++i) values.push_back(Value(++last_id_));
    std::vector<WriteOp> ops;
    std::vector<bool> was_there;
    for (size_t i = 0; i < keys.size(); ++i) {
      const bool remove = random_.Percent(deletes);
      ops.push_back(remove ? DeleteOp(keys[i]) : PutOp(keys[i], values[i]));
      was_there.push_back(model_.contains(keys[i]));
      if (remove) {
        model_.erase(keys[i]);
      } else {
        model_[keys[i]] = values[i];
      }
    }
    const auto results = atomic ? Atomic(engine(), ops) : Group(engine(), ops);
    for (size_t i = 0; i < ops.size(); ++i) {
      ASSERT_EQ(results[i].outcome, Outcome::kOk);
      if (ops[i].kind == WriteKind::kDelete) {
        ASSERT_EQ(results[i].found, was_there[i]) << Show(keys[i]);
      }
    }
    for (const std::string& key : keys) ExpectAsInModel(key);
  }

  void ExpectModel() {
    ExpectSound();
    ASSERT_EQ(engine().CountKeys(), model_.size());
    auto at = model_.begin();
    for (const Pair& pair : ScanAll(engine())) {
      ASSERT_NE(at, model_.end());
      ASSERT_EQ(pair.key, at->first);
      ASSERT_EQ(pair.value, at->second);
      ++at;
    }
    EXPECT_EQ(at, model_.end());
  }

  Random& random() { return random_; }

 private:
  void ExpectAsInModel(const std::string& key) {
    const auto at = model_.find(key);
    const ReadResult read = Get(engine(), key);
    ASSERT_EQ(read.found, at != model_.end()) << Show(key);
    if (read.found) {
      ASSERT_EQ(read.value, at->second) << Show(key);
    }
  }

  Random random_;
  std::map<std::string, std::string> model_;
  uint64_t last_id_ = 0;
};

TEST_P(RandomGroupsTest, LeaveWhatTheOperationsInTheirOrderLeave) {
  for (unsigned round = 0; round < 200; ++round) {
    WriteGroup(/*atomic=*/random().OneIn(3), round / 20 % 2 == 0 ? 15 : 75);
    ExpectModel();
    if (HasFatalFailure()) return;
    if (harness().persistent() && round % 50 == 49) {
      ASSERT_TRUE(harness().KillAndReopen().ok());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, RandomGroupsTest, ::testing::ValuesIn(StoringCases()),
                         EngineCaseName());

}  // namespace
}  // namespace lodgekv::test
