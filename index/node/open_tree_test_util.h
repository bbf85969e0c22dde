// For tests: a `fixed64` tree without its engine, so that its parts in DRAM can be looked at.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "index/node/codec.h"
#include "index/node/engine_test_util.h"
#include "index/node/point_writes.h"

namespace lodgekv {

// `State` and `Writer` as the engine has them. The heir makes the tree's first node.
template <class State, class Writer>
class OpenTreeOf {
 public:
  using C = Fixed64Codec;

  ~OpenTreeOf() { state_->background.Stop(); }
  OpenTreeOf(const OpenTreeOf&) = delete;
  OpenTreeOf& operator=(const OpenTreeOf&) = delete;

  // A put of the key as its own value, or its delete.
  void Write(uint64_t key, bool remove = false) {
    const std::string text = Text(key);
    WriteResult result;
    const WriteOp op{
        .kind = remove ? WriteKind::kDelete : WriteKind::kPut, .key = text, .value = text};
    ASSERT_EQ((PointWrites<C, Writer>::Write(*writer_, op, &result, {})), Outcome::kOk);
  }
  State& state() { return *state_; }
  const State& state() const { return *state_; }

 protected:
  OpenTreeOf(const EngineInfo& engine, const TestEngine::Options& options)
      : arena_(uint64_t{64} << 20) {
    arena_.options().chunk_bytes = uint64_t{64} << 10;
    pmem::PoolIdentity identity = pmem::TestArena::Identity();
    identity.key_format = KeyFormat::kFixed64;
    pool_ = arena_.Create(identity);
    context_.pool = pool_.get();
    context_.key_format = KeyFormat::kFixed64;
    context_.options = *OptionValues::Parse(engine.options, options);
    state_ = std::make_unique<State>(context_);
    writer_ = std::make_unique<Writer>(*state_);
  }

 private:
  pmem::TestArena arena_;
  std::unique_ptr<pmem::Pool> pool_;
  EngineContext context_;
  std::unique_ptr<State> state_;
  std::unique_ptr<Writer> writer_;
};

}  // namespace lodgekv
