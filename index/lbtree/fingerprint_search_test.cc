// The search skips slots whose fingerprint is not the key's (LB+-Tree Alg. 1). Two pairs of a block
// are swapped while the fingerprints stay. Each is now in a slot with another fingerprint: a search
// by fingerprints misses it, one that compares every slot finds it (`fingerprints=0`, which shows
// that the pairs are there).
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "index/lbtree/lbtree_test_util.h"

namespace lodgekv::lbtree {
namespace {

constexpr uint64_t kKeys = 2000;

class FingerprintSearchTest : public ::testing::TestWithParam<std::tuple<KeyFormat, unsigned>> {
 protected:
  void Fill(bool fingerprints) {
    const auto [format, blocks] = GetParam();
    tree_ = std::make_unique<TestTree>(
        format, TestTree::Options{{"leaf_blocks", std::to_string(blocks)},
                                  {"fingerprints", fingerprints ? "1" : "0"}});
    for (uint64_t n = 0; n < kKeys; ++n) ASSERT_EQ(tree_->Put(Key(n), Text(n)), Outcome::kOk);
  }
  static std::string Key(uint64_t n) {
    return std::get<KeyFormat>(GetParam()) == KeyFormat::kFixed64 ? Scattered(n)
                                                                  : Scattered(n) + " and more";
  }

  static std::vector<std::string> Keys() {
    std::vector<std::string> keys;
    for (uint64_t n = 0; n < kKeys; ++n) keys.push_back(Key(n));
    return keys;
  }

  // Swaps pairs in every block that has two with different fingerprints. Returns how many keys are
  // displaced.
  uint64_t Displace() {
    uint64_t displaced = 0;
    for (const media::Block* leaf : tree_->Leaves()) {
      for (unsigned b = 0; b < tree_->blocks(); ++b) displaced += DisplaceIn(leaf, b);
    }
    return displaced;
  }
  uint64_t DisplaceIn(const media::Block* leaf, unsigned b) {
    const Header header = HeaderOf(leaf, b);
    if (header.slots() == 0) return 0;
    const auto first = static_cast<unsigned>(std::countr_zero(header.slots()));
    for (uint32_t others = header.slots() & (header.slots() - 1); others != 0;
         others &= others - 1) {
      const auto other = static_cast<unsigned>(std::countr_zero(others));
      if (header.FingerprintAt(other) == header.FingerprintAt(first)) continue;
      const Pair pair = SlotPair(leaf[b], first);
      StorePair(leaf + b, first, SlotPair(leaf[b], other));
      StorePair(leaf + b, other, pair);
      return 2;
    }
    return 0;
  }
  void StorePair(const media::Block* block, unsigned slot, Pair pair) {
    auto* changed = tree_->pool().At<media::Block>(tree_->pool().OffsetOf(block));
    tree_->pool().medium().Store(changed->slots[slot].key, pair.key);
    tree_->pool().medium().Store(changed->slots[slot].value, pair.value);
  }

  // The number of keys found.
  uint64_t FoundTogether() {
    const std::vector<std::string> keys = Keys();
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    std::vector<ReadResult> results(kKeys);
    EXPECT_EQ(tree_->engine().Read(views, results, {}), Outcome::kOk);
    return static_cast<uint64_t>(std::ranges::count_if(results, &ReadResult::found));
  }
  uint64_t DeleteAll(size_t group) {
    uint64_t found = 0;
    const std::vector<std::string> keys = Keys();
    for (size_t n = 0; n < kKeys; n += group) {
      std::vector<WriteOp> ops;
      for (size_t i = 0; i < group; ++i) {
        ops.push_back({.kind = WriteKind::kDelete, .key = keys[n + i]});
      }
      std::vector<WriteResult> results(group);
      EXPECT_EQ(tree_->engine().Write(ops, results, {}), Outcome::kOk);
      found += static_cast<uint64_t>(std::ranges::count_if(results, &WriteResult::found));
    }
    return found;
  }

  std::unique_ptr<TestTree> tree_;
};

TEST_P(FingerprintSearchTest, AReadLooksOnlyAtSlotsOfItsFingerprint) {
  for (const bool fingerprints : {true, false}) {
    Fill(fingerprints);
    const uint64_t displaced = Displace();
    ASSERT_GT(displaced, kKeys / 20);
    const uint64_t seen = fingerprints ? kKeys - displaced : kKeys;
    uint64_t found = 0;
    for (uint64_t n = 0; n < kKeys; ++n) found += tree_->Get(Key(n)) == Text(n) ? 1 : 0;
    EXPECT_EQ(found, seen);
    EXPECT_EQ(FoundTogether(), seen);
  }
}

// Deletes leave the pairs of other keys in place: single ones, and groups, which use the header as
// they will write it.
TEST_P(FingerprintSearchTest, AWriteLooksOnlyAtSlotsOfItsFingerprint) {
  for (const bool fingerprints : {true, false}) {
    for (const size_t group : {1, 50}) {
      Fill(fingerprints);
      const uint64_t displaced = Displace();
      ASSERT_GT(displaced, kKeys / 20);
      EXPECT_EQ(DeleteAll(group), fingerprints ? kKeys - displaced : kKeys) << "by " << group;
      EXPECT_EQ(FoundTogether(), 0u);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, FingerprintSearchTest,
                         ::testing::Combine(::testing::Values(KeyFormat::kFixed64,
                                                              KeyFormat::kBytes),
                                            ::testing::Values(1u, 3u)),
                         [](const auto& of) {
                           const bool fixed = std::get<0>(of.param) == KeyFormat::kFixed64;
                           return (fixed ? "fixed64_" : "bytes_") +
                                  std::to_string(std::get<1>(of.param));
                         });

}  // namespace
}  // namespace lodgekv::lbtree
