// Lines, fences and bytes of writes and reads, against the paper's counts (SSTree Fig. 9 to 11,
// IV-C): counts of one thread, which are deterministic.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <random>

#include "index/sstree/sstree_test_util.h"

namespace lodgekv::sstree {
namespace {

constexpr uint64_t kKeys = 60'000;

void Load(TestTree& tree, uint64_t keys) {
  for (uint64_t i = 0; i < keys; ++i) {
    ASSERT_EQ(tree.Put(Text(RandomWord(i)), Text(i)), Outcome::kOk);
  }
}

struct PerOp {
  double lines;
  double fences;
};
// Of `ops` calls of call(i).
template <class Call>
PerOp CostOf(uint64_t ops, Call call) {
  const Cost before = ThreadCost();
  for (uint64_t i = 0; i < ops; ++i) call(i);
  const Cost cost = ThreadCost() - before;
  return {static_cast<double>(cost.lines_flushed) / static_cast<double>(ops),
          static_cast<double>(cost.fences) / static_cast<double>(ops)};
}

class CostTest : public ::testing::TestWithParam<unsigned> {
 protected:
  static TestEngine::Options Options(TestEngine::Options options = {}) {
    options["subnodes"] = std::to_string(GetParam());
    return options;
  }
  static void Print(const char* what, double value) {
    std::printf("N = %u: %s %.3f\n", GetParam(), what, value);
  }
};

// --- Figure 9 ---

PerOp InsertCost(const TestEngine::Options& options, uint64_t* splits = nullptr) {
  TestTree tree(KeyFormat::kFixed64, options);
  Load(tree, kKeys);
  if (splits != nullptr) *splits = tree.Counters()["leaf_splits_total"];
  return CostOf(kKeys / 2, [&](uint64_t i) {
    EXPECT_EQ(tree.Put(Text(RandomWord(kKeys + i)), Text(i)), Outcome::kOk);
  });
}

// The chunks that are zeroed when they come into use count too: a line for each subnode, once.
TEST_P(CostTest, AnInsertWritesTwoLinesAtMost) {
  const PerOp cost = InsertCost(Options());
  EXPECT_LE(cost.lines, 1.9);
  EXPECT_LE(cost.fences, 1.5);  // 1.63 if pairs do not move to other lines' last slots
  Print("lines of an insert", cost.lines);
  Print("fences of an insert", cost.fences);
}

// Its gain is in splits, each of which writes a leaf and changes the parents.
TEST_P(CostTest, HeadReplacementSavesHalfOfTheSplits) {
  uint64_t with = 0;
  uint64_t without = 0;
  (void)InsertCost(Options(), &with);
  const PerOp cost = InsertCost(Options({{"head_replacement", "0"}}), &without);
  EXPECT_GT(without, 1.8 * static_cast<double>(with));
  Print("splits of 1,000 inserts", static_cast<double>(with) * 1000 / kKeys);
  Print("the same without head replacement", static_cast<double>(without) * 1000 / kKeys);
  Print("lines of an insert, without head replacement", cost.lines);
}

TEST_P(CostTest, WithoutEntryMovingAnInsertWritesMoreLines) {
  const PerOp with = InsertCost(Options());
  const PerOp without = InsertCost(Options({{"entry_moving", "0"}}));
  EXPECT_GT(without.lines, 1.1 * with.lines);
  Print("lines of an insert, without entry moving", without.lines);
}

PerOp UpdateCost(TestTree& tree, bool skewed, uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  return CostOf(kKeys, [&](uint64_t i) {
    // 80 % of the operations in a fifth of the keys.
    const uint64_t range = skewed && random() % 5 != 0 ? kKeys / 5 : kKeys;
    EXPECT_EQ(tree.Put(Text(RandomWord(random() % range)), Text(i)), Outcome::kOk);
  });
}

TEST_P(CostTest, AnUpdateWritesLittleMoreThanALine) {
  for (const bool skewed : {false, true}) {
    TestTree tree(KeyFormat::kFixed64, Options());
    Load(tree, kKeys);
    const PerOp cost = UpdateCost(tree, skewed);
    EXPECT_LE(cost.lines, 1.2);
    Print(skewed ? "lines of a skewed update" : "lines of an update", cost.lines);
  }
}

// Updates bring pairs together in the head: Table II in form.
TEST_P(CostTest, ItemMovementLetsUpdatesAndReadsFindTheirPairsInTheHead) {
  double in_head[2];
  for (const bool moves : {false, true}) {
    TestTree tree(KeyFormat::kFixed64, Options({{"item_movement", moves ? "1" : "0"}}));
    Load(tree, kKeys);
    (void)UpdateCost(tree, /*skewed=*/true);
    uint64_t hot[2] = {};  // in overflow subnodes, in heads
    std::set<uint64_t> hottest;
    for (uint64_t i = 0; i < kKeys / 5; ++i) hottest.insert(RandomWord(i));
    for (const auto& leaf : tree.Leaves()) {
      for (unsigned number = 0; number < leaf.size(); ++number) {
        for (const uint64_t key : TestTree::KeysOf(leaf, number)) {
          if (hottest.contains(key)) ++hot[number == 0];
        }
      }
    }
    in_head[moves] = static_cast<double>(hot[1]) / static_cast<double>(hot[0] + hot[1]);
    Print(moves ? "share of hot pairs in heads" : "share of hot pairs in heads, without movement",
          in_head[moves]);
  }
  EXPECT_GT(in_head[1], in_head[0] + 0.15);
}

TEST_P(CostTest, ADeleteWritesALine) {
  TestTree tree(KeyFormat::kFixed64, Options());
  Load(tree, kKeys);
  const PerOp present = CostOf(
      kKeys / 5, [&](uint64_t i) { EXPECT_EQ(tree.Delete(Text(RandomWord(i))), Outcome::kOk); });
  EXPECT_LE(present.lines, 1.03);  // reclamations included
  Print("lines of a delete", present.lines);
  // As the paper counts: some keys are gone already, which DRAM says.
  std::mt19937_64 random(1);
  const PerOp any = CostOf(kKeys / 5, [&](uint64_t) {
    EXPECT_EQ(tree.Delete(Text(RandomWord(random() % kKeys))), Outcome::kOk);
  });
  EXPECT_LE(any.lines, 1.0);
  Print("lines of a delete, a fifth of the keys being absent", any.lines);
}

// --- lines read ---

// Which lines of the medium a lookup reads, by the rules of lookups.h.
class LineCounter {
 public:
  explicit LineCounter(TestTree& tree) {
    for (auto& leaf : tree.Leaves()) {
      uint64_t least = UINT64_MAX;
      uint64_t filter = 0;
      for (unsigned number = 0; number < leaf.size(); ++number) {
        for (const uint64_t key : TestTree::KeysOf(leaf, number)) {
          least = std::min(least, key);
          if (number > 0) filter |= Leaf::FilterBits(Fixed64Codec::KeyOfWord(key).hash);
        }
      }
      leaves_[least] = {leaf, filter};
    }
  }

  unsigned LinesOf(uint64_t key) {
    auto at = leaves_.upper_bound(key);
    if (at != leaves_.begin()) --at;
    const auto& [leaf, filter] = at->second;
    const uint64_t valid = TestTree::ValidOf(leaf);
    const uint16_t hash = Fixed64Codec::KeyOfWord(key).hash;
    std::set<std::pair<unsigned, unsigned>> lines;  // subnode, line
    if (FindIn(leaf, 0, valid, key, &lines)) return static_cast<unsigned>(lines.size());
    Leaf metadata{};
    metadata.filter = filter;
    if (leaf.size() == 1 || !metadata.MayOverflow(hash)) return static_cast<unsigned>(lines.size());
    for (unsigned number = 1; number < leaf.size(); ++number) {
      lines.insert({number - 1, 0});  // the next pointer and the fingerprints
      if (FindIn(leaf, number, valid, key, &lines)) break;
    }
    return static_cast<unsigned>(lines.size());
  }

 private:
  static bool FindIn(const ListOfSubnodes& leaf, unsigned number, uint64_t valid, uint64_t key,
                     std::set<std::pair<unsigned, unsigned>>* lines) {
    const uint8_t wanted = FingerprintOf(Fixed64Codec::KeyOfWord(key).hash);
    for (uint32_t slots = SlotsOf(valid, number); slots != 0; slots &= slots - 1) {
      const auto slot = static_cast<unsigned>(std::countr_zero(slots));
      const Pair pair = SlotPair(*leaf[number], slot);
      if (FingerprintOf(Fixed64Codec::HashOf(pair)) != wanted) continue;
      lines->insert({number, LineOfSlot(slot)});
      if (pair.key == key) return true;
    }
    return false;
  }

  std::map<uint64_t, std::pair<ListOfSubnodes, uint64_t>> leaves_;
};

// Table I in form: the more subnodes, the more lines.
TEST_P(CostTest, ALookupReadsTwoLinesAtMostAndOneOfAnAbsentKeyHardlyAny) {
  TestTree tree(KeyFormat::kFixed64, Options());
  Load(tree, kKeys);
  LineCounter counter(tree);
  uint64_t present = 0;
  uint64_t absent = 0;
  for (uint64_t i = 0; i < kKeys; ++i) {
    present += counter.LinesOf(RandomWord(i));
    absent += counter.LinesOf(RandomWord(kKeys + i));
  }
  const double each = static_cast<double>(present) / kKeys;
  const double each_absent = static_cast<double>(absent) / kKeys;
  if (GetParam() == 2) {
    EXPECT_LE(each, 2.0);
    EXPECT_LE(each_absent, 0.15);
  }
  Print("leaf lines of a lookup", each);
  Print("leaf lines of a lookup of an absent key", each_absent);
  // Skewed, after skewed updates.
  (void)UpdateCost(tree, /*skewed=*/true);
  LineCounter after(tree);
  uint64_t skewed = 0;
  for (uint64_t i = 0; i < kKeys; ++i) {
    skewed += after.LinesOf(RandomWord(i % 5 != 0 ? i % (kKeys / 5) : i));
  }
  Print("leaf lines of a skewed lookup after skewed updates", static_cast<double>(skewed) / kKeys);
}

// --- Figure 11, Table I ---

double BytesPerKey(TestTree& tree) {
  return static_cast<double>(tree.engine().GetMemoryUse().medium_bytes) /
         static_cast<double>(tree.engine().CountKeys());
}

TEST_P(CostTest, DeletesAndUpdatesGiveSpaceBack) {
  TestTree tree(KeyFormat::kFixed64, Options());
  Load(tree, kKeys);
  const uint64_t loaded = tree.engine().GetMemoryUse().medium_bytes;
  Print("bytes of the medium a key after a random load", BytesPerKey(tree));
  Print("bytes of DRAM a key",
        static_cast<double>(tree.engine().GetMemoryUse().dram_bytes) / kKeys);
  EXPECT_LE(BytesPerKey(tree), 26.0);
  std::mt19937_64 random(1);
  std::vector<bool> gone(kKeys);
  for (uint64_t i = 0; i < 2 * kKeys; ++i) {
    const uint64_t n = random() % kKeys;
    if (random() % 5 == 0) {
      ASSERT_EQ(tree.Delete(Text(RandomWord(n))), Outcome::kOk);
      gone[n] = true;
    } else if (!gone[n]) {
      ASSERT_EQ(tree.Put(Text(RandomWord(n)), Text(i)), Outcome::kOk);
    }
  }
  const double left =
      static_cast<double>(tree.engine().GetMemoryUse().medium_bytes) / static_cast<double>(loaded);
  EXPECT_LE(left, GetParam() == 2 ? 1 - 0.086 : 0.96);
  Print("bytes of the medium left after 20 % deletes and 80 % updates", left);
  tree.ExpectSound();
}

TEST_P(CostTest, WithoutReclamationTheyDoNot) {
  TestTree tree(KeyFormat::kFixed64, Options({{"reclamation", "0"}, {"drop_leaves", "0"}}));
  Load(tree, kKeys);
  const uint64_t loaded = tree.engine().GetMemoryUse().medium_bytes;
  for (uint64_t i = 0; i < kKeys / 3; ++i) {
    ASSERT_EQ(tree.Delete(Text(RandomWord(i))), Outcome::kOk);
  }
  EXPECT_EQ(tree.engine().GetMemoryUse().medium_bytes, loaded);
}

// Sequential load: Table I in form. A pair begins a leaf with one line; more subnodes, fewer
// leaves.
TEST_P(CostTest, AscendingKeysAreWrittenWithFewLinesAndFillTheirLeaves) {
  TestTree tree(KeyFormat::kFixed64, Options());
  const PerOp cost =
      CostOf(kKeys, [&](uint64_t i) { EXPECT_EQ(tree.Put(Text(i), Text(i)), Outcome::kOk); });
  EXPECT_LE(cost.lines, 1.5);
  EXPECT_LE(BytesPerKey(tree), 18.4);
  auto counters = tree.Counters();
  Print("lines of an ascending insert", cost.lines);
  Print("fences of an ascending insert", cost.fences);
  Print("bytes of the medium a key after an ascending load", BytesPerKey(tree));
  Print("leaves of 1,000 ascending keys", static_cast<double>(counters["leaves"]) * 1000 / kKeys);
}

INSTANTIATE_TEST_SUITE_P(N, CostTest, ::testing::Range(2u, kMaxSubnodes + 1));

}  // namespace
}  // namespace lodgekv::sstree
