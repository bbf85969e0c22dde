// A search skips slots of a leaf whose fingerprint, mirrored in DRAM, is not the key's. Two pairs
// of each leaf are swapped while the fingerprints stay. A search by fingerprints then finds neither
// of them; one that compared every slot would find both.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "index/lodgetree/lodgetree_test_util.h"

namespace lodgekv::lodgetree {
namespace {

constexpr uint64_t kKeys = 2000;

class FingerprintSearchTest : public ::testing::TestWithParam<KeyFormat> {
 protected:
  void SetUp() override {
    for (uint64_t n = 0; n < kKeys; ++n) {
      keys_.push_back(GetParam() == KeyFormat::kFixed64 ? Scattered(n)
                                                        : Scattered(n) + " and more");
      ASSERT_EQ(tree_.Put(keys_.back(), Text(n)), Outcome::kOk);
    }
    for (const media::Leaf* leaf : tree_.Leaves()) displaced_ += Displace(leaf);
    ASSERT_GT(displaced_, kKeys / 20);
  }

  static uint8_t FingerprintAt(const media::Leaf* leaf, unsigned slot) {
    return static_cast<uint8_t>(leaf->fingerprints[slot / 8].Load() >> (8 * (slot % 8)));
  }
  // Returns the number of displaced keys.
  uint64_t Displace(const media::Leaf* leaf) {
    const auto slots = static_cast<uint32_t>(leaf->commit.Load() & media::kBitmapMask);
    if (slots == 0) return 0;
    const auto first = static_cast<unsigned>(std::countr_zero(slots));
    for (uint32_t others = slots & (slots - 1); others != 0; others &= others - 1) {
      const auto other = static_cast<unsigned>(std::countr_zero(others));
      if (FingerprintAt(leaf, other) == FingerprintAt(leaf, first)) continue;
      Exchange(leaf, first, other);
      return 2;
    }
    return 0;
  }
  void Exchange(const media::Leaf* leaf, unsigned a, unsigned b) {
    auto* slots = tree_.pool().At<media::Leaf>(tree_.pool().OffsetOf(leaf))->slots;
    const Pair pair{slots[a].key.Load(), slots[a].value.Load()};
    pmem::Medium& medium = tree_.pool().medium();
    medium.Store(slots[a].key, slots[b].key.Load());
    medium.Store(slots[a].value, slots[b].value.Load());
    medium.Store(slots[b].key, pair.key);
    medium.Store(slots[b].value, pair.value);
  }

  TestTree tree_{GetParam()};
  std::vector<std::string> keys_;
  uint64_t displaced_ = 0;
};

TEST_P(FingerprintSearchTest, AReadLooksOnlyAtSlotsOfItsFingerprint) {
  uint64_t found = 0;
  for (uint64_t n = 0; n < kKeys; ++n) found += tree_.Get(keys_[n]) == Text(n) ? 1 : 0;
  EXPECT_EQ(found, kKeys - displaced_);
  const std::vector<std::string_view> views(keys_.begin(), keys_.end());
  std::vector<ReadResult> results(kKeys);
  EXPECT_EQ(tree_.engine().Read(views, results, {}), Outcome::kOk);
  EXPECT_EQ(std::ranges::count_if(results, &ReadResult::found), kKeys - displaced_);
}

// (A leaf that splits meanwhile computes new fingerprints for the pairs it moves.)
TEST_P(FingerprintSearchTest, AConditionLooksOnlyAtSlotsOfItsFingerprint) {
  uint64_t unseen = 0;
  for (const std::string& key : keys_) {
    const bool seen = tree_.Get(key) != "none";
    EXPECT_EQ(tree_.Write({{.kind = WriteKind::kPut,
                            .condition = Condition::kIfPresent,
                            .key = key,
                            .value = Text(1)}}),
              seen ? Outcome::kOk : Outcome::kConditionFailed);
    unseen += seen ? 0 : 1;
  }
  EXPECT_GT(unseen, displaced_ / 2);
}

// A put pair is compared with those of its leaf when it is drained: here all are new.
TEST_P(FingerprintSearchTest, AFlushLooksOnlyAtSlotsOfItsFingerprint) {
  std::vector<std::string> unseen;
  std::ranges::copy_if(keys_, std::back_inserter(unseen),
                       [&](const std::string& key) { return tree_.Get(key) == "none"; });
  EXPECT_EQ(unseen.size(), displaced_);
  EXPECT_EQ(tree_.engine().CountKeys(), kKeys);
  for (const std::string& key : unseen) ASSERT_EQ(tree_.Put(key, Text(1)), Outcome::kOk);
  EXPECT_GT(tree_.engine().CountKeys(), kKeys + displaced_ / 2);
}

INSTANTIATE_TEST_SUITE_P(Formats, FingerprintSearchTest,
                         ::testing::Values(KeyFormat::kFixed64, KeyFormat::kBytes),
                         [](const auto& of) {
                           return of.param == KeyFormat::kFixed64 ? "Fixed64" : "Bytes";
                         });

}  // namespace
}  // namespace lodgekv::lodgetree
