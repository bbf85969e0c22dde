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
#include "index/pmem/testing/arena_test_util.h"
#include "index/sstree/sstree_test_util.h"

namespace lodgekv::sstree {
namespace {

constexpr uint64_t kLoaded = 40000;
constexpr uint64_t kGroups = 40;  // measured groups

enum class Order { kRandom, kAscending };
enum class MediumKind { kPmem, kFile };

struct Tree {
  Tree(MediumKind medium, unsigned subnodes, KeyFormat format) : arena(uint64_t{64} << 20) {
    pmem::PoolIdentity identity = pmem::TestArena::Identity();
    identity.key_format = format;
    arena.options().chunk_bytes = uint64_t{64} << 10;
    arena.options().strict_order = medium == MediumKind::kFile;
    pool = arena.Create(identity);
    EngineContext context;
    context.pool = pool.get();
    context.key_format = format;
    context.options =
        *OptionValues::Parse(GetEngineInfo().options, {{"subnodes", std::to_string(subnodes)}});
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

std::string KeyAt(Order order, uint64_t n) {
  return Text(order == Order::kAscending ? n : RandomWord(n));
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
  unsigned subnodes;
  Order order;
  bool atomic;
  double most[4];

  std::string Name() const {
    return absl::StrCat(medium == MediumKind::kPmem ? "pmem" : "file", "_", subnodes, "_subnodes_",
                        order == Order::kRandom ? "random" : "ascending", atomic ? "_atomic" : "");
  }
};

class GroupCostTest : public ::testing::TestWithParam<Limits> {};

TEST_P(GroupCostTest, AGroupSharesItsFences) {
  const Limits& limits = GetParam();
  Tree tree(limits.medium, limits.subnodes, KeyFormat::kFixed64);
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
    {kPmem, 2, Order::kRandom, false, {1.7, 2.6, 7.3, 26}},
    {kPmem, 2, Order::kRandom, true, {1.7, 5.6, 10.3, 29}},
    {kPmem, 2, Order::kAscending, false, {1.5, 2.4, 5.1, 5.2}},
    {kPmem, 2, Order::kAscending, true, {1.5, 5.4, 8.2, 8.2}},
    {kPmem, 4, Order::kRandom, false, {1.7, 2.6, 7.8, 26}},
    {kPmem, 4, Order::kRandom, true, {1.7, 5.6, 10.8, 29}},
    {kPmem, 4, Order::kAscending, false, {1.5, 2.2, 9, 9.2}},
    {kPmem, 4, Order::kAscending, true, {1.5, 5.2, 12, 12.2}},
    {kFile, 2, Order::kRandom, false, {2.2, 2.6, 4.6, 5.4}},
    {kFile, 2, Order::kRandom, true, {2.2, 5.6, 7.6, 8.5}},
    {kFile, 2, Order::kAscending, false, {2, 2.4, 5.1, 5.2}},
    {kFile, 2, Order::kAscending, true, {2, 5.4, 8.2, 8.2}},
    {kFile, 4, Order::kRandom, false, {2.2, 2.6, 4.9, 5.5}},
    {kFile, 4, Order::kRandom, true, {2.2, 5.6, 8, 8.6}},
    {kFile, 4, Order::kAscending, false, {2, 2.2, 9, 9.2}},
    {kFile, 4, Order::kAscending, true, {2, 5.2, 12, 12.2}},
};

INSTANTIATE_TEST_SUITE_P(Groups, GroupCostTest, ::testing::ValuesIn(kLimits),
                         [](const auto& test) { return test.param.Name(); });

}  // namespace
}  // namespace lodgekv::sstree
