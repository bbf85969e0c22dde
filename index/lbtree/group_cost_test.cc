// Fences of groups in a tree whose leaves are as full as they become: counts of one thread, which
// are deterministic.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "index/cost.h"
#include "index/engine_info.h"
#include "index/lbtree/lbtree_test_util.h"
#include "index/pmem/testing/arena_test_util.h"

namespace lodgekv::lbtree {
namespace {

constexpr uint64_t kLoaded = 40000;
constexpr uint64_t kGroups = 40;  // measured groups

enum class Order { kRandom, kAscending };
enum class MediumKind { kPmem, kFile };

struct Tree {
  Tree(MediumKind medium, unsigned blocks, KeyFormat format) : arena(uint64_t{64} << 20) {
    pmem::PoolIdentity identity = pmem::TestArena::Identity();
    identity.key_format = format;
    arena.options().chunk_bytes = uint64_t{64} << 10;
    arena.options().strict_order = medium == MediumKind::kFile;
    pool = arena.Create(identity);
    EngineContext context;
    context.pool = pool.get();
    context.key_format = format;
    context.options =
        *OptionValues::Parse(GetEngineInfo().options, {{"leaf_blocks", std::to_string(blocks)}});
    engine = *GetEngineInfo().create(context);
  }
  Cost Put(const std::vector<std::string>& keys, bool atomic) {
    std::vector<WriteOp> ops;
    for (const std::string& key : keys) ops.push_back({.key = key, .value = key});
    std::vector<WriteResult> results(ops.size());
    WriteOptions options;
    options.atomic = atomic;
    const Cost before = ThreadCost();
    EXPECT_EQ(engine->Write(ops, results, options), Outcome::kOk);
    return ThreadCost() - before;
  }

  pmem::TestArena arena;
  std::unique_ptr<pmem::Pool> pool;
  std::unique_ptr<Engine> engine;
};

// Random keys are all different (splitmix64 permutes the words) and unevenly distributed, so that
// leaves do not fill up at the same time.
std::string KeyAt(Order order, uint64_t n) {
  if (order == Order::kAscending) return Text(n);
  n = (n ^ (n >> 30)) * 0xBF58476D1CE4E5B9ull;
  n = (n ^ (n >> 27)) * 0x94D049BB133111EBull;
  return Text(n ^ (n >> 31));
}

// The mean of `kGroups` groups of puts of new keys.
double FencesOf(Tree& tree, Order order, size_t size, bool atomic, uint64_t* next) {
  uint64_t fences = 0;
  for (uint64_t g = 0; g < kGroups; ++g) {
    std::vector<std::string> keys;
    while (keys.size() < size) keys.push_back(KeyAt(order, (*next)++));
    fences += tree.Put(keys, atomic).fences;
  }
  return static_cast<double>(fences) / kGroups;
}

// The maximum mean number of fences of a group of 1, 8, 64 and 256 puts.
struct Limits {
  MediumKind medium;
  unsigned blocks;
  Order order;
  bool atomic;
  double most[4];

  std::string Name() const {
    return absl::StrCat(medium == MediumKind::kPmem ? "pmem" : "file", "_", blocks, "_blocks_",
                        order == Order::kRandom ? "random" : "ascending", atomic ? "_atomic" : "");
  }
};

class GroupCostTest : public ::testing::TestWithParam<Limits> {};

TEST_P(GroupCostTest, AGroupSharesItsFences) {
  const Limits& limits = GetParam();
  Tree tree(limits.medium, limits.blocks, KeyFormat::kFixed64);
  uint64_t next = 1;
  while (next <= kLoaded) (void)tree.Put({KeyAt(limits.order, next++)}, false);
  std::string all = limits.Name() + ":";
  constexpr size_t kSizes[] = {1, 8, 64, 256};
  for (size_t i = 0; i < std::size(kSizes); ++i) {
    const double fences = FencesOf(tree, limits.order, kSizes[i], limits.atomic, &next);
    EXPECT_LE(fences, limits.most[i]) << "group of " << kSizes[i];
    absl::StrAppendFormat(&all, " %.2f", fences);
  }
  std::puts(all.c_str());
  EXPECT_EQ(tree.engine->Check().problem_count, 0u);
  EXPECT_EQ(tree.engine->CountKeys(), next - 1);
}

// Measured values, rounded up. An atomic batch has three fences more: two for its intent and one
// for its end. A single put is not a group.
constexpr auto kPmem = MediumKind::kPmem;
constexpr auto kFile = MediumKind::kFile;
constexpr Limits kLimits[] = {
    {kPmem, 1, Order::kRandom, false, {1.5, 2.5, 6.5, 23}},
    {kPmem, 1, Order::kRandom, true, {1.5, 5.5, 9.5, 26}},
    {kPmem, 1, Order::kAscending, false, {1.5, 3, 3, 3}},
    {kPmem, 1, Order::kAscending, true, {1.5, 6, 6, 6.1}},
    {kPmem, 2, Order::kRandom, false, {1.5, 2.5, 6.5, 23}},
    {kPmem, 2, Order::kRandom, true, {1.5, 5.5, 9.5, 26}},
    {kPmem, 2, Order::kAscending, false, {1.5, 3.5, 3.5, 3.5}},
    {kPmem, 2, Order::kAscending, true, {1.5, 6.5, 6.5, 6.5}},
    {kFile, 1, Order::kRandom, false, {2.2, 3, 4, 5}},
    {kFile, 1, Order::kRandom, true, {2.2, 6, 7.1, 8}},
    {kFile, 1, Order::kAscending, false, {2.1, 3, 3, 3}},
    {kFile, 1, Order::kAscending, true, {2.1, 6, 6, 6.1}},
    {kFile, 2, Order::kRandom, false, {2.1, 3, 4, 5}},
    {kFile, 2, Order::kRandom, true, {2.1, 6, 7, 8}},
    {kFile, 2, Order::kAscending, false, {2.1, 4, 4, 4}},
    {kFile, 2, Order::kAscending, true, {2.1, 7, 7, 7}},
};

INSTANTIATE_TEST_SUITE_P(Groups, GroupCostTest, ::testing::ValuesIn(kLimits),
                         [](const auto& test) { return test.param.Name(); });

}  // namespace
}  // namespace lodgekv::lbtree
