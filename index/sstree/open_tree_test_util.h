// For tests: an SSTree without its engine, so that its leaves in DRAM can be looked at.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "index/sstree/leaf_search.h"
#include "index/sstree/sstree_test_util.h"
#include "index/sstree/writes.h"

namespace lodgekv::sstree {

class OpenTree {
 public:
  using C = Fixed64Codec;

  explicit OpenTree(const TestEngine::Options& options) : arena_(uint64_t{64} << 20) {
    arena_.options().chunk_bytes = uint64_t{64} << 10;
    pmem::PoolIdentity identity = pmem::TestArena::Identity();
    identity.key_format = KeyFormat::kFixed64;
    pool_ = arena_.Create(identity);
    context_.pool = pool_.get();
    context_.key_format = KeyFormat::kFixed64;
    context_.options = *OptionValues::Parse(GetEngineInfo().options, options);
    tree_ = std::make_unique<TreeState<C>>(context_);
    writer_ = std::make_unique<PairWriter<C>>(*tree_);
    const TreeState<C>::Inner::Child child{C::MinusInfinity(), tree_->leaves.New()};
    tree_->inner.Build({&child, 1});
  }
  ~OpenTree() { tree_->background.Stop(); }

  void Write(uint64_t key, bool remove = false) {
    const std::string text = Text(key);
    WriteResult result;
    const WriteOp op{
        .kind = remove ? WriteKind::kDelete : WriteKind::kPut, .key = text, .value = text};
    ASSERT_EQ((PointWrites<C, PairWriter<C>>::Write(*writer_, op, &result, {})), Outcome::kOk);
  }
  const Leaf& LeafOf(uint64_t key) const {
    uint64_t snapshot;
    return *tree_->inner.Descend(C::KeyOfWord(key), &snapshot);
  }
  const TreeState<C>& state() const { return *tree_; }
  const LeafSearch<C> search() const { return LeafSearch<C>(*tree_); }

 private:
  pmem::TestArena arena_;
  std::unique_ptr<pmem::Pool> pool_;
  EngineContext context_;
  std::unique_ptr<TreeState<C>> tree_;
  std::unique_ptr<PairWriter<C>> writer_;
};

}  // namespace lodgekv::sstree
