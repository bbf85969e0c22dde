// For tests: an LB+-Tree on plain memory, with access to its leaves on the medium.
#pragma once

#include <bit>
#include <vector>

#include "index/lbtree/distributed_header.h"
#include "index/lbtree/lbtree.h"
#include "index/node/engine_test_util.h"

namespace lodgekv::lbtree {

const EngineInfo& GetEngineInfo();

class TestTree : public TestEngine {
 public:
  explicit TestTree(KeyFormat format, const Options& options = {}, bool inline_pairs = false)
      : TestEngine(GetEngineInfo(), format, options, inline_pairs) {}
  TestTree(const BulkLoad& load, KeyFormat format, const Options& options = {},
           bool inline_pairs = false)
      : TestEngine(GetEngineInfo(), load, format, options, inline_pairs) {}

  unsigned blocks() {
    return static_cast<unsigned>(OffsetIn(pool().engine_area()[media::kBlocks]));
  }
  // From left to right, by their sibling words.
  std::vector<const media::Block*> Leaves() {
    std::vector<const media::Block*> leaves;
    for (pmem::Offset at = OffsetIn(pool().engine_area()[media::kFirstLeaf]); at != 0;) {
      leaves.push_back(pool().At<media::Block>(at));
      at = OffsetIn(leaves.back()[0].tail[AltOf(leaves.back()) ? 1 : 0]);
    }
    return leaves;
  }
  // The valid slots of block `b`.
  static uint32_t SlotsOf(const media::Block* leaf, unsigned b) {
    return HeaderOf(leaf, b).slots();
  }
  unsigned PairsOf(const media::Block* leaf) {
    int pairs = 0;
    for (unsigned b = 0; b < blocks(); ++b) pairs += std::popcount(SlotsOf(leaf, b));
    return static_cast<unsigned>(pairs);
  }
};

}  // namespace lodgekv::lbtree
