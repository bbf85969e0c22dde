// For tests of what groups of writes cost: fences in a tree whose leaves are as full as they
// become. Counts of one thread, which are deterministic.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "index/cost.h"
#include "index/node/engine_test_util.h"
#include "index/pmem/testing/arena_test_util.h"

namespace lodgekv {

enum class GroupOrder : uint8_t { kRandom, kAscending };
enum class GroupMedium : uint8_t { kPmem, kFile };

// The maximum mean number of fences of a group of 1, 8, 64 and 256 puts of new keys, in a tree
// with `leaf_size` as its option for that.
struct GroupLimits {
  GroupMedium medium;
  unsigned leaf_size;
  GroupOrder order;
  bool atomic;
  double most[4];

  std::string Name(const std::string& option) const {
    return absl::StrCat(medium == GroupMedium::kPmem ? "pmem" : "file", "_", option, "_", leaf_size,
                        order == GroupOrder::kRandom ? "_random" : "_ascending",
                        atomic ? "_atomic" : "");
  }
};

// `option`: the engine's that says how large leaves are.
class GroupCost {
 public:
  GroupCost(const EngineInfo& info, const std::string& option, const GroupLimits& limits)
      : limits_(limits), arena_(uint64_t{64} << 20) {
    pmem::PoolIdentity identity = pmem::TestArena::Identity();
    identity.key_format = KeyFormat::kFixed64;
    arena_.options().chunk_bytes = uint64_t{64} << 10;
    arena_.options().strict_order = limits.medium == GroupMedium::kFile;
    pool_ = arena_.Create(identity);
    EngineContext context;
    context.pool = pool_.get();
    context.key_format = KeyFormat::kFixed64;
    context.options =
        *OptionValues::Parse(info.options, {{option, std::to_string(limits.leaf_size)}});
    engine_ = *info.create(context);
    while (next_ <= kLoaded) (void)Put(NextKeys(1), false);
  }

  void ExpectWithinLimits() {
    std::string all = "fences:";
    constexpr size_t kSizes[] = {1, 8, 64, 256};
    for (size_t i = 0; i < std::size(kSizes); ++i) {
      const double fences = FencesOf(kSizes[i]);
      EXPECT_LE(fences, limits_.most[i]) << "group of " << kSizes[i];
      absl::StrAppendFormat(&all, " %.2f", fences);
    }
    std::puts(all.c_str());
    EXPECT_EQ(engine_->Check().problem_count, 0u);
    EXPECT_EQ(engine_->CountKeys(), next_ - 1);
  }

 private:
  static constexpr uint64_t kLoaded = 40'000;
  static constexpr uint64_t kGroups = 40;  // measured groups

  // Random keys are unevenly distributed, so that leaves do not fill up at the same time.
  std::vector<std::string> NextKeys(size_t count) {
    std::vector<std::string> keys;
    for (; keys.size() < count; ++next_) {
      keys.push_back(Text(limits_.order == GroupOrder::kAscending ? next_ : RandomWord(next_)));
    }
    return keys;
  }
  Cost Put(const std::vector<std::string>& keys, bool atomic) {
    std::vector<WriteOp> ops;
    for (const std::string& key : keys) ops.push_back({.key = key, .value = key});
    std::vector<WriteResult> results(ops.size());
    const Cost before = ThreadCost();
    EXPECT_EQ(engine_->Write(ops, results, {.atomic = atomic}), Outcome::kOk);
    return ThreadCost() - before;
  }
  // The mean of `kGroups` groups.
  double FencesOf(size_t size) {
    uint64_t fences = 0;
    for (uint64_t g = 0; g < kGroups; ++g) fences += Put(NextKeys(size), limits_.atomic).fences;
    return static_cast<double>(fences) / kGroups;
  }

  const GroupLimits limits_;
  pmem::TestArena arena_;
  std::unique_ptr<pmem::Pool> pool_;
  std::unique_ptr<Engine> engine_;
  uint64_t next_ = 1;
};

}  // namespace lodgekv
