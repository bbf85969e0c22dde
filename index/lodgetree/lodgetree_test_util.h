// For tests: a LodgeTree on plain memory, with access to its leaves on the medium.
#pragma once

#include <bit>
#include <vector>

#include "index/lodgetree/layout.h"
#include "index/lodgetree/lodgetree.h"
#include "index/node/engine_test_util.h"

namespace lodgekv::lodgetree {

const EngineInfo& GetEngineInfo();

class TestTree : public TestEngine {
 public:
  explicit TestTree(KeyFormat format, const Options& options = {}, bool inline_pairs = false)
      : TestEngine(GetEngineInfo(), format, options, inline_pairs) {}

  // The number of pairs in each leaf on the medium, from left to right.
  std::vector<unsigned> LeafFill() {
    std::vector<unsigned> fill;
    for (const media::Leaf* leaf : Leaves()) {
      const uint64_t slots = leaf->commit.Load() & media::kBitmapMask;
      fill.push_back(static_cast<unsigned>(std::popcount(slots)));
    }
    return fill;
  }
  std::vector<const media::Leaf*> Leaves() {
    std::vector<const media::Leaf*> leaves;
    for (pmem::Offset at = OffsetIn(pool().engine_area()[media::kFirstLeaf]); at != 0;) {
      leaves.push_back(pool().At<media::Leaf>(at));
      const bool use_n = (leaves.back()->commit.Load() & media::kUseN) != 0;
      at = OffsetIn(leaves.back()->next[use_n ? 1 : 0]);
    }
    return leaves;
  }
};

}  // namespace lodgekv::lodgetree
