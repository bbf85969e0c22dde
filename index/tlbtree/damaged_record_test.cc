// A damaged record of a key that shares its first 8 bytes with others, so that its text decides
// where it is among them: it is an error of its own key, and of no other.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "index/tlbtree/tlbtree_test_util.h"

namespace lodgekv::tlbtree {
namespace {

std::string KeyAt(unsigned number) { return absl::StrFormat("account/%03d", number); }

class DamagedRecordTest : public ::testing::TestWithParam<unsigned> {
 protected:
  // A new tree with keys 010, 020 and so on.
  void Fill(unsigned count) {
    tree_ = std::make_unique<TestEngine>(GetEngineInfo(), KeyFormat::kBytes);
    sound_.clear();
    for (unsigned i = 1; i <= count; ++i) Put(10 * i);
  }
  void Put(unsigned number) {
    ASSERT_EQ(tree_->Put(KeyAt(number), "value"), Outcome::kOk) << number;
    sound_[number] = "value";
  }
  // Flips a bit of the first of the key's digits: the record's text is another's place.
  void Damage(unsigned number) {
    const std::string key = KeyAt(number);
    auto* memory = reinterpret_cast<char*>(tree_->arena().data());
    void* found = memmem(memory, tree_->arena().size(), key.data(), key.size());
    ASSERT_NE(found, nullptr);
    static_cast<char*>(found)[8] ^= static_cast<char>(1u << GetParam());
    sound_.erase(number);
    damaged_ = number;
  }
  // This key and the next one.
  void PutPair(unsigned number, bool in_a_group) {
    if (!in_a_group) {
      Put(number);
      return Put(number + 1);
    }
    const std::vector<std::string> keys = {KeyAt(number), KeyAt(number + 1)};
    ASSERT_EQ(
        tree_->Write({{.key = keys[0], .value = "value"}, {.key = keys[1], .value = "value"}}),
        Outcome::kOk);
    sound_[number] = sound_[number + 1] = "value";
  }
  WriteResult Write(const WriteOp& op) {
    WriteResult result;
    (void)tree_->engine().Write({&op, 1}, {&result, 1}, {});
    return result;
  }
  // Each key that is not damaged is read; a scan, which ends where the damage is, repeats none.
  void ExpectOthersAreThere() {
    for (const auto& [number, value] : sound_) EXPECT_EQ(tree_->Get(KeyAt(number)), value);
    std::set<std::string> scanned;
    (void)tree_->engine().Scan({}, [&](const ScanItem& item) {
      EXPECT_TRUE(scanned.emplace(item.key).second) << item.key << " twice";
      return true;
    });
  }
  // It is not silently gone.
  void ExpectDamageIsReported() {
    const std::string key = KeyAt(damaged_);
    const std::string_view view = key;
    ReadResult result;
    EXPECT_EQ(tree_->engine().Read({&view, 1}, {&result, 1}, {}), Outcome::kDataLoss);
  }

  std::unique_ptr<TestEngine> tree_;
  std::map<unsigned, std::string> sound_;
  unsigned damaged_ = 0;
};

TEST_P(DamagedRecordTest, WritesOfTheOtherKeysOfItsLeafAreRight) {
  Fill(8);
  Damage(20);
  for (const unsigned number : {10u, 30u, 50u, 80u}) {
    ASSERT_EQ(tree_->Put(KeyAt(number), "new"), Outcome::kOk);
    sound_[number] = "new";
  }
  const std::string removed = KeyAt(60);
  EXPECT_TRUE(Write({.kind = WriteKind::kDelete, .key = removed}).found);
  EXPECT_EQ(tree_->Get(removed), "none");
  sound_.erase(60);
  const std::string there = KeyAt(70);
  EXPECT_EQ(Write({.kind = WriteKind::kPut,
                   .condition = Condition::kIfAbsent,
                   .key = there,
                   .value = "second"})
                .outcome,
            Outcome::kConditionFailed);
  ExpectOthersAreThere();
  ExpectDamageIsReported();
}

// New keys, alone and in groups, so that the leaf splits more than once.
TEST_P(DamagedRecordTest, ASplitHidesNoKey) {
  for (const unsigned damaged : {10u, 70u, 120u}) {
    for (const bool in_groups : {false, true}) {
      SCOPED_TRACE(absl::StrFormat("%d damaged, groups %d", damaged, in_groups));
      Fill(12);
      Damage(damaged);
      for (unsigned number = 5; number <= 125; number += 10) {
        PutPair(number, in_groups);
        ExpectOthersAreThere();
        // Right beside it nobody knows on which side of it a new key is.
        const bool beside = number < damaged + 10 && damaged < number + 10;
        if (!beside) ExpectDamageIsReported();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Bits, DamagedRecordTest, ::testing::Values(0u, 1u, 2u, 3u));

}  // namespace
}  // namespace lodgekv::tlbtree
