// For tests: an SPTree on plain memory, with access to its leaves on the medium.
#pragma once

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "index/node/engine_test_util.h"
#include "index/sptree/layout.h"
#include "index/sptree/sptree.h"

namespace lodgekv::sptree {

const EngineInfo& GetEngineInfo();

class TestTree : public TestEngine {
 public:
  explicit TestTree(KeyFormat format, const Options& options = {}, bool inline_pairs = false)
      : TestEngine(GetEngineInfo(), format, options, inline_pairs) {}
  TestTree(const BulkLoad& load, KeyFormat format, const Options& options = {},
           bool inline_pairs = false)
      : TestEngine(GetEngineInfo(), load, format, options, inline_pairs) {}

  // Along the chain.
  std::vector<media::Bnode*> Leaves() {
    std::vector<media::Bnode*> leaves;
    pmem::Offset offset = OffsetIn(pool().engine_area()[media::kFirstLeaf]);
    while (offset != 0) {
      leaves.push_back(pool().At<media::Bnode>(offset));
      offset = OffsetIn(leaves.back()->next);
    }
    return leaves;
  }
  static unsigned PairsOf(const media::Bnode* leaf) {
    return static_cast<unsigned>(std::popcount(leaf->bitmap.Load()));
  }
  // Of the slots that count, ascending; of fixed64.
  static std::vector<uint64_t> KeysOf(const media::Bnode* leaf) {
    std::vector<uint64_t> keys;
    for (uint64_t slots = leaf->bitmap.Load(); slots != 0; slots &= slots - 1) {
      keys.push_back(SlotPair(*leaf, static_cast<unsigned>(std::countr_zero(slots))).key);
    }
    std::sort(keys.begin(), keys.end());
    return keys;
  }
  // Bytes of DRAM for each of the leaves on the medium.
  double DramShare() {
    const double leaves = static_cast<double>(Leaves().size() * sizeof(media::Bnode));
    return static_cast<double>(engine().GetMemoryUse().dram_bytes) / leaves;
  }
};

}  // namespace lodgekv::sptree
