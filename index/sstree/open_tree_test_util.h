// For tests: an SSTree without its engine, so that its leaves in DRAM can be looked at.
#pragma once

#include "index/node/open_tree_test_util.h"
#include "index/sstree/leaf_search.h"
#include "index/sstree/sstree_test_util.h"
#include "index/sstree/writes.h"

namespace lodgekv::sstree {

class OpenTree : public OpenTreeOf<TreeState<Fixed64Codec>, PairWriter<Fixed64Codec>> {
 public:
  explicit OpenTree(const TestEngine::Options& options) : OpenTreeOf(GetEngineInfo(), options) {
    const TreeState<C>::Inner::Child child{C::MinusInfinity(), state().leaves.New()};
    state().inner.Build({&child, 1});
  }

  const Leaf& LeafOf(uint64_t key) const {
    uint64_t snapshot;
    return *state().inner.Descend(C::KeyOfWord(key), &snapshot);
  }
  LeafSearch<C> search() const { return LeafSearch<C>(state()); }
};

}  // namespace lodgekv::sstree
