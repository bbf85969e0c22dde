// Bulk load: content of the leaves, cost, and refused loads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "index/node/sorted_pairs.h"
#include "index/sstree/sstree_test_util.h"

namespace lodgekv::sstree {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct PairText {
  std::string key;
  std::string value;
  uint64_t expiry_unix_ms = 0;
};
using Pairs = std::vector<PairText>;

BulkSource SourceOf(const Pairs& pairs) {
  return [&pairs, next = size_t{0}](BulkPair* pair) mutable -> absl::StatusOr<bool> {
    if (next == pairs.size()) return false;
    const PairText& text = pairs[next++];
    *pair = {text.key, text.value, text.expiry_unix_ms};
    return true;
  };
}

// Distributed over the whole key range, in order.
Pairs FixedPairs(uint64_t count) {
  Pairs pairs;
  for (uint64_t i = 0; i < count; ++i) pairs.push_back({Scattered(i), Text(~i)});
  std::sort(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  return pairs;
}

// Short and long keys, including inline pairs; a few values of megabytes.
Pairs BytesPairs(uint64_t count, bool inline_pairs) {
  Pairs pairs;
  for (uint64_t i = 0; i < count; ++i) {
    std::string key = i % 3 == 0 ? absl::StrCat("k", i) : absl::StrCat("shared/prefix/", i, "/key");
    const size_t bytes = i % 500 == 7 ? size_t{100} << 10 : i % 40;
    pairs.push_back({std::move(key), std::string(bytes, static_cast<char>('a' + i % 26)),
                     !inline_pairs && i % 10 == 0 ? 5'000 + i : 0});
  }
  std::sort(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  return pairs;
}

struct Case {
  unsigned fill = 70;
  unsigned subnodes = 2;
  KeyFormat format = KeyFormat::kFixed64;
  bool inline_pairs = false;

  Pairs MakePairs(uint64_t count) const {
    return format == KeyFormat::kFixed64 ? FixedPairs(count) : BytesPairs(count, inline_pairs);
  }
};

class BulkTree : public TestTree {
 public:
  BulkTree(const Case& c, const Pairs& pairs, Options options = {})
      : TestTree({SourceOf(pairs), c.fill}, c.format, With(options, c.subnodes), c.inline_pairs) {}

  void ExpectHolds(const Pairs& pairs) {
    ExpectSound();
    EXPECT_EQ(engine().CountKeys(), pairs.size());
    size_t at = 0;
    const auto visit = [&](const ScanItem& item) {
      EXPECT_LT(at, pairs.size());
      if (at == pairs.size()) return false;
      const PairText& pair = pairs[at++];
      EXPECT_EQ(item.key, pair.key);
      EXPECT_EQ(item.value, pair.value);
      EXPECT_EQ(item.expiry_unix_ms, pair.expiry_unix_ms);
      return true;
    };
    EXPECT_EQ(engine().Scan({}, visit), Outcome::kOk);
    EXPECT_EQ(at, pairs.size());
    for (const PairText& pair : pairs) ASSERT_EQ(Get(pair.key), pair.value);
  }

 private:
  static Options With(Options options, unsigned subnodes) {
    options["subnodes"] = std::to_string(subnodes);
    return options;
  }
};

class BulkLoadTest : public ::testing::TestWithParam<Case> {};

TEST_P(BulkLoadTest, EveryPairIsThereAndStays) {
  const Pairs pairs = GetParam().MakePairs(5000);
  BulkTree tree(GetParam(), pairs);
  tree.ExpectHolds(pairs);
  for (const unsigned threads : {1u, 2u}) {
    tree.KillAndRecover(threads);
    tree.ExpectHolds(pairs);
  }
}

TEST_P(BulkLoadTest, LeavesAreAsFullAsWanted) {
  const Case c = GetParam();
  const Pairs pairs = c.MakePairs(5000);
  BulkTree tree(c, pairs);
  const auto leaves = tree.Leaves();
  const double in_leaf = std::max(1.0, c.fill / 100.0 * kSubnodeSlots * c.subnodes);
  EXPECT_NEAR(static_cast<double>(leaves.size()), static_cast<double>(pairs.size()) / in_leaf, 1.0);
  unsigned odd = 0;
  for (const auto& leaf : leaves) {
    const unsigned count = TestTree::PairsOf(leaf);
    if (count < in_leaf - 1.0 || count > in_leaf + 1.0) ++odd;  // the last one
    // Overflow subnodes are full, and the head's free slots are beside its word first.
    const uint64_t valid = TestTree::ValidOf(leaf);
    for (unsigned number = 1; number < leaf.size(); ++number) {
      ASSERT_EQ(SlotsOf(valid, number), kSubnodeMask);
    }
    const uint32_t slots = SlotsOf(valid, 0);
    ASSERT_EQ(slots + (slots & -slots), 1u << kSubnodeSlots) << "with gaps: " << slots;
  }
  EXPECT_LE(odd, 1u);
}

TEST_P(BulkLoadTest, TheTreeGrowsAndShrinksLikeAnyOther) {
  const Case c = GetParam();
  const Pairs pairs = c.MakePairs(3000);
  Pairs half;
  for (size_t i = 0; i < pairs.size(); i += 2) half.push_back(pairs[i]);
  BulkTree tree(c, half);
  for (size_t i = 1; i < pairs.size(); i += 2) {
    const PairText& pair = pairs[i];
    ASSERT_EQ(
        tree.Write({{.key = pair.key, .value = pair.value, .expiry_unix_ms = pair.expiry_unix_ms}}),
        Outcome::kOk);
  }
  tree.ExpectHolds(pairs);
  for (size_t i = 0; i < pairs.size(); i += 2) {
    ASSERT_EQ(tree.Delete(pairs[i].key), Outcome::kOk);
  }
  tree.ExpectSound();
  EXPECT_EQ(tree.engine().CountKeys(), pairs.size() / 2);
}

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const unsigned subnodes : {2u, 3u, 4u}) {
    for (const unsigned fill : {kLeastFillPercent, 33u, 70u, 100u})
      cases.push_back({fill, subnodes});
  }
  for (const bool inline_pairs : {false, true}) {
    cases.push_back({70, 2, KeyFormat::kBytes, inline_pairs});
    cases.push_back({100, 3, KeyFormat::kBytes, inline_pairs});
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Cases, BulkLoadTest, ::testing::ValuesIn(AllCases()),
                         [](const auto& tested) {
                           const Case& c = tested.param;
                           return absl::StrCat("fill_", c.fill, "_subnodes_", c.subnodes,
                                               c.format == KeyFormat::kFixed64 ? "_fixed64"
                                               : c.inline_pairs                ? "_inline"
                                                                               : "_bytes");
                         });

// --- what it costs ---

TEST(BulkLoadCostTest, ALeafIsWrittenOnce) {
  for (const unsigned subnodes : {2u, 3u, 4u}) {
    for (const unsigned fill : {75u, 100u}) {
      const Pairs none;
      const Pairs pairs = FixedPairs(20'000);
      const Case c{fill, subnodes};
      Cost cost = ThreadCost();
      BulkTree empty(c, none);
      const Cost of_empty = ThreadCost() - cost;
      cost = ThreadCost();
      BulkTree tree(c, pairs);
      const Cost of_load = ThreadCost() - cost;
      const double lines = static_cast<double>(of_load.lines_flushed - of_empty.lines_flushed);
      // A line for each subnode besides: its free tag, when its chunk comes into use.
      const auto subnodes_in_use =
          static_cast<double>(tree.engine().GetMemoryUse().medium_bytes / sizeof(media::Subnode));
      EXPECT_GE(lines / subnodes_in_use, kSubnodeLines);
      EXPECT_LE(lines / subnodes_in_use, kSubnodeLines + 1.4);
      EXPECT_LE(subnodes_in_use * kSubnodeSlots * fill / 100.0,
                1.35 * static_cast<double>(pairs.size()));
    }
  }
}

// Counts lines written by streaming stores.
class StreamCounter final : public pmem::Tracer {
 public:
  void OnStore(const void*, size_t, bool stream) override { lines += stream ? 1 : 0; }
  void OnFlush(const void*) override {}
  void OnFence() override {}
  void OnCrashPoint(std::string_view) override {}
  bool OnCanary(std::string_view) override { return false; }

  uint64_t lines = 0;
};

TEST(BulkLoadCostTest, LeavesAreWrittenPastTheCache) {
  StreamCounter tracer;
  pmem::TestArena arena(uint64_t{4} << 20);
  arena.options().tracer = &tracer;
  pmem::PoolIdentity identity = pmem::TestArena::Identity();
  identity.key_format = KeyFormat::kFixed64;
  const auto pool = arena.Create(identity);
  EngineContext context;
  context.pool = pool.get();
  context.key_format = KeyFormat::kFixed64;
  context.options = *OptionValues::Parse(GetEngineInfo().options, {});
  constexpr uint64_t kSubnodes = 100;
  const Pairs pairs = FixedPairs(kSubnodes * kSubnodeSlots);
  const uint64_t before = tracer.lines;
  const auto engine = GetEngineInfo().bulk_load(context, {SourceOf(pairs), 100});
  ASSERT_TRUE(engine.ok()) << engine.status();
  EXPECT_EQ(tracer.lines - before, kSubnodes * kSubnodeLines);
}

TEST(BulkLoadCostTest, FirstInsertsAfter70PercentWriteOneLine) {
  for (const unsigned subnodes : {2u, 3u, 4u}) {
    const Pairs pairs = FixedPairs(5'000);
    BulkTree tree({70, subnodes}, pairs);
    // One more key above each fifth leaf's worth of keys: into a leaf that nothing was put into
    // yet.
    for (size_t i = 0; i < pairs.size(); i += 5 * 10 * subnodes) {
      std::string key = pairs[i].key;
      ++key.back();
      const Effect effect = tree.PutEffect(key, Text(i));
      ASSERT_LE(effect.cost.lines_flushed, 1u) << i;
      ASSERT_EQ(effect.cost.fences, 1u) << i;
      ASSERT_EQ(effect["leaf_splits_total"], 0u);
    }
  }
}

TEST(BulkLoadCostTest, FirstInsertsAfter100PercentSplit) {
  const Pairs pairs = FixedPairs(5'000);
  BulkTree tree({100, 2}, pairs);
  for (size_t i = 0; i < 4'000; i += 100) {
    std::string key = pairs[i].key;
    ++key.back();
    const Effect effect = tree.PutEffect(key, Text(i));
    ASSERT_EQ(effect["leaf_splits_total"] + effect["appended_leaves_total"], 1u);
  }
}

// --- what it refuses ---

class BulkLoadErrorTest : public ::testing::Test {
 protected:
  // The error of a load; afterwards the pool must be as before.
  absl::Status ErrorOf(BulkLoad load, KeyFormat format = KeyFormat::kFixed64,
                       bool inline_pairs = false, uint64_t pool_bytes = 8 << 20) {
    pmem::TestArena arena(pool_bytes);
    pmem::PoolIdentity identity = pmem::TestArena::Identity();
    identity.key_format = format;
    identity.inline_pairs = inline_pairs;
    const auto pool = arena.Create(identity);
    EngineContext context;
    context.pool = pool.get();
    context.key_format = format;
    context.inline_pairs = inline_pairs;
    context.options = *OptionValues::Parse(GetEngineInfo().options, {});
    const absl::Status status = GetEngineInfo().bulk_load(context, load).status();
    EXPECT_EQ(pool->allocated_bytes(), 0u);
    EXPECT_TRUE(pool->LargeObjects().empty());
    for (const pmem::Word& word : pool->engine_area()) EXPECT_EQ(word.Load(), 0u);
    // And the pool works.
    const Pairs few = format == KeyFormat::kFixed64 ? FixedPairs(100) : BytesPairs(5, inline_pairs);
    const auto engine = GetEngineInfo().bulk_load(context, {SourceOf(few), 70});
    EXPECT_TRUE(engine.ok()) << engine.status();
    if (engine.ok()) {
      EXPECT_EQ((*engine)->CountKeys(), few.size());
    }
    return status;
  }
  absl::Status ErrorOf(const Pairs& pairs, KeyFormat format = KeyFormat::kFixed64,
                       bool inline_pairs = false) {
    const absl::Status status = ErrorOf({SourceOf(pairs), 70}, format, inline_pairs);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return status;
  }
};

TEST_F(BulkLoadErrorTest, AFillOutOfBounds) {
  const Pairs pairs = FixedPairs(10);
  for (const unsigned fill : {0u, kLeastFillPercent - 1, 101u, 1000u}) {
    const absl::Status status = ErrorOf({SourceOf(pairs), fill});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("to 10 to 100 percent, not to ", fill)));
  }
}

TEST_F(BulkLoadErrorTest, KeysOutOfOrder) {
  Pairs pairs = FixedPairs(1000);
  std::swap(pairs[700], pairs[701]);
  EXPECT_THAT(std::string(ErrorOf(pairs).message()),
              AllOf(HasSubstr("pair 702 has key"), HasSubstr("below that of pair 701"),
                    HasSubstr("must ascend")));
  // Compared as byte strings, not as signed ones.
  const Pairs high = {{"\x7f", "a"}, {"\x80", "b"}, {"\xff", "c"}, {"\xff\x01", "d"}, {"a", "e"}};
  EXPECT_THAT(std::string(ErrorOf(high, KeyFormat::kBytes).message()),
              AllOf(HasSubstr("pair 5 has key \"a\""), HasSubstr("pair 4, \"\\xff\\x01\"")));
}

TEST_F(BulkLoadErrorTest, AKeyTwice) {
  Pairs pairs = BytesPairs(300, false);
  pairs.insert(pairs.begin() + 17, pairs[16]);
  EXPECT_THAT(std::string(ErrorOf(pairs, KeyFormat::kBytes).message()),
              AllOf(HasSubstr("pair 18 has key"), HasSubstr("which pair 17 has too")));
}

TEST_F(BulkLoadErrorTest, PairsThatTheKeyFormatDoesNotTake) {
  EXPECT_THAT(std::string(ErrorOf({{Text(1), Text(1)}, {"123456789", Text(2)}}).message()),
              AllOf(HasSubstr("pair 2 has a key of 9 bytes and a value of 8"),
                    HasSubstr("exactly 8 bytes")));
  EXPECT_THAT(std::string(ErrorOf({{Text(1), "short"}}).message()),
              HasSubstr("pair 1 has a key of 8 bytes and a value of 5"));
  EXPECT_THAT(std::string(ErrorOf({{Text(1), Text(1), 77}}).message()), HasSubstr("an expiry"));
  EXPECT_THAT(std::string(ErrorOf({{"", "v"}}, KeyFormat::kBytes).message()),
              AllOf(HasSubstr("a key of 0 bytes"), HasSubstr("1 to 65535")));
  EXPECT_THAT(std::string(ErrorOf({{std::string(65'536, 'k'), "v"}}, KeyFormat::kBytes).message()),
              HasSubstr("a key of 65536 bytes"));
  EXPECT_THAT(std::string(ErrorOf({{"k", "v", 77}}, KeyFormat::kBytes, true).message()),
              HasSubstr("with inline_pairs without expiry"));
}

TEST_F(BulkLoadErrorTest, ASourceThatFails) {
  uint64_t next = 0;
  std::string key;
  const BulkSource source = [&](BulkPair* pair) -> absl::StatusOr<bool> {
    if (next == 1234) return absl::UnavailableError("the file has ended early");
    key = Text(next++);
    *pair = {key, key};
    return true;
  };
  const absl::Status status = ErrorOf({source, 70});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("after 1234 pairs"), HasSubstr("the file has ended early")));
}

TEST_F(BulkLoadErrorTest, AFullPool) {
  const auto endless = [next = uint64_t{0},
                        key = std::string()](BulkPair* pair) mutable -> absl::StatusOr<bool> {
    key = Text(next++);
    *pair = {key, key};
    return true;
  };
  for (const KeyFormat format : {KeyFormat::kFixed64, KeyFormat::kBytes}) {
    const absl::Status status = ErrorOf({endless, 70}, format, false, 1 << 20);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("the pool is full"), HasSubstr("no room for pair ")));
  }
}

}  // namespace
}  // namespace lodgekv::sstree
