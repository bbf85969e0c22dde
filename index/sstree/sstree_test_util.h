// For tests: an SSTree on plain memory, with access to its subnodes on the medium.
#pragma once

#include <algorithm>
#include <bit>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "index/node/engine_test_util.h"
#include "index/pmem/unit_arena.h"
#include "index/sstree/layout.h"
#include "index/sstree/sstree.h"

namespace lodgekv::sstree {

const EngineInfo& GetEngineInfo();

// A leaf as it lies on the medium: its subnodes, the head first.
using ListOfSubnodes = std::vector<const media::Subnode*>;

class TestTree : public TestEngine {
 public:
  explicit TestTree(KeyFormat format, const Options& options = {}, bool inline_pairs = false)
      : TestEngine(GetEngineInfo(), format, options, inline_pairs) {}
  TestTree(const BulkLoad& load, KeyFormat format, const Options& options = {},
           bool inline_pairs = false)
      : TestEngine(GetEngineInfo(), load, format, options, inline_pairs) {}

  // Found by their free tags and next pointers alone, as recovery finds them; in no order.
  std::vector<ListOfSubnodes> Leaves() {
    std::vector<const media::Subnode*> used;
    std::set<pmem::Offset> overflow;
    for (const pmem::Chunk& chunk : pool().Chunks()) {
      if (chunk.use != pmem::ChunkUse::kNodes) continue;
      for (uint64_t at = 0; at < chunk.bytes; at += sizeof(media::Subnode)) {
        const auto* subnode = pool().At<media::Subnode>(chunk.begin + at);
        const uint64_t next = subnode->next.Load();
        if (next == media::kFree) continue;
        used.push_back(subnode);
        if (next != media::End()) overflow.insert(OffsetIn(subnode->next));
      }
    }
    std::vector<ListOfSubnodes> leaves;
    for (const media::Subnode* subnode : used) {
      if (!overflow.contains(pool().OffsetOf(subnode))) leaves.push_back(ListFrom(subnode));
    }
    return leaves;
  }
  // From left to right; of fixed64.
  std::vector<ListOfSubnodes> SortedLeaves() {
    std::vector<ListOfSubnodes> leaves = Leaves();
    std::sort(leaves.begin(), leaves.end(),
              [](const auto& a, const auto& b) { return KeysOf(a).front() < KeysOf(b).front(); });
    return leaves;
  }
  // The tree's only leaf.
  ListOfSubnodes OnlyLeaf() {
    const auto leaves = Leaves();
    EXPECT_EQ(leaves.size(), 1u);
    return leaves.empty() ? ListOfSubnodes() : leaves[0];
  }
  static uint64_t ValidOf(const ListOfSubnodes& leaf) {
    uint64_t valid = 0;
    EXPECT_TRUE(ReadValid(leaf[0]->word.Load(), &valid));
    return valid;
  }
  static unsigned PairsOf(const ListOfSubnodes& leaf) {
    return static_cast<unsigned>(std::popcount(ValidOf(leaf)));
  }
  // Of subnode `number`, the pairs that count, of fixed64.
  static std::vector<uint64_t> KeysOf(const ListOfSubnodes& leaf, unsigned number) {
    std::vector<uint64_t> keys;
    for (uint32_t slots = SlotsOf(ValidOf(leaf), number); slots != 0; slots &= slots - 1) {
      keys.push_back(SlotPair(*leaf[number], static_cast<unsigned>(std::countr_zero(slots))).key);
    }
    return keys;
  }
  // Of all subnodes, ascending.
  static std::vector<uint64_t> KeysOf(const ListOfSubnodes& leaf) {
    std::vector<uint64_t> keys;
    for (unsigned number = 0; number < leaf.size(); ++number) {
      for (const uint64_t key : KeysOf(leaf, number)) keys.push_back(key);
    }
    std::sort(keys.begin(), keys.end());
    return keys;
  }

 private:
  ListOfSubnodes ListFrom(const media::Subnode* subnode) {
    ListOfSubnodes list = {subnode};
    while (subnode->next.Load() != media::End()) {
      subnode = pool().At<media::Subnode>(OffsetIn(subnode->next));
      list.push_back(subnode);
    }
    return list;
  }
};

}  // namespace lodgekv::sstree
