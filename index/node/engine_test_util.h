// For tests: an engine on plain memory, its counters by name, and what single writes cost.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "index/cost.h"
#include "index/engine.h"
#include "index/engine_info.h"
#include "index/node/checked_word.h"
#include "index/node/key_word.h"
#include "index/pmem/testing/arena_test_util.h"

namespace lodgekv {

// The changes made by one call.
struct Effect {
  Cost cost;
  std::map<std::string, uint64_t, std::less<>> counters;

  uint64_t operator[](std::string_view name) const {
    const auto at = counters.find(name);
    if (at == counters.end()) {
      ADD_FAILURE() << "no counter " << name;
      return 0;
    }
    return at->second;
  }
};

// Calls back at a crash point.
class CallingTracer final : public pmem::Tracer {
 public:
  CallingTracer(std::string_view point, std::function<void()> call)
      : point_(point), call_(std::move(call)) {}
  void OnStore(const void*, size_t, bool) override {}
  void OnFlush(const void*) override {}
  void OnFence() override {}
  void OnCrashPoint(std::string_view name) override {
    if (name == point_) call_();
  }
  bool OnCanary(std::string_view) override { return false; }

 private:
  const std::string_view point_;
  const std::function<void()> call_;
};

class TestEngine {
 public:
  using Options = std::map<std::string, std::string>;

  TestEngine(const EngineInfo& info, KeyFormat format, const Options& options = {},
             bool inline_pairs = false)
      : TestEngine(info, format, options, inline_pairs, info.create) {}
  // Created by a bulk load.
  TestEngine(const EngineInfo& info, const BulkLoad& load, KeyFormat format,
             const Options& options = {}, bool inline_pairs = false)
      : TestEngine(info, format, options, inline_pairs,
                   [&](const EngineContext& context) { return info.bulk_load(context, load); }) {}
  Engine& engine() { return *engine_; }
  pmem::Pool& pool() { return *pool_; }
  pmem::TestArena& arena() { return arena_; }

  // Drops the engine like a killed process, and recovers.
  void KillAndRecover(unsigned threads = 1) {
    engine_.reset();
    pool_.reset();
    pool_ = arena_.Open();
    context_.pool = pool_.get();
    context_.recovery_threads = threads;
    recovery_ = {};
    auto engine = info_.recover(context_, &recovery_);
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }
  // The same with other options.
  void KillAndRecoverWith(const Options& options) {
    context_.options = *OptionValues::Parse(info_.options, options);
    KillAndRecover();
  }
  // Closes the pool in order, and opens it again.
  void CloseAndRecover() {
    ASSERT_TRUE(engine_->Close().ok());
    engine_.reset();
    ASSERT_TRUE(pool_->Close(/*clean=*/true).ok());
    KillAndRecover();
  }
  // Of the last KillAndRecover.
  const RecoveryReport& recovery() const { return recovery_; }
  // The error of a recovery of the medium as it is.
  absl::Status RecoverError(const Options& options = {}) {
    engine_.reset();
    context_.options = *OptionValues::Parse(info_.options, options);
    RecoveryReport report;
    return info_.recover(context_, &report).status();
  }

  Outcome Write(const std::vector<WriteOp>& ops, const WriteOptions& options = {}) {
    std::vector<WriteResult> results(ops.size());
    return engine_->Write(ops, results, options);
  }
  Outcome Put(std::string_view key, std::string_view value) {
    return Write({{.kind = WriteKind::kPut, .key = key, .value = value}});
  }
  Outcome Delete(std::string_view key) { return Write({{.kind = WriteKind::kDelete, .key = key}}); }
  std::string Get(std::string_view key) {
    ReadResult result;
    EXPECT_EQ(engine_->Read({&key, 1}, {&result, 1}, {}), Outcome::kOk);
    return result.found ? result.value : "none";
  }

  std::map<std::string, uint64_t, std::less<>> Counters() {
    std::map<std::string, uint64_t, std::less<>> counters;
    engine_->VisitCounters([&](const CounterSample& sample) {
      counters.emplace(sample.name, static_cast<uint64_t>(sample.value));
    });
    return counters;
  }
  // The cost and changes of `call`, including gauges.
  template <class Call>
  Effect EffectOf(Call call) {
    Effect effect;
    auto before = Counters();
    const Cost cost = ThreadCost();
    call();
    effect.cost = ThreadCost() - cost;
    effect.counters = Counters();
    for (auto& [name, value] : effect.counters) value -= before[name];
    return effect;
  }
  Effect PutEffect(std::string_view key, std::string_view value) {
    return EffectOf([&] { EXPECT_EQ(Put(key, value), Outcome::kOk); });
  }

  void ExpectSound() {
    const CheckReport report = engine_->Check();
    EXPECT_EQ(report.problem_count, 0u);
    for (const std::string& problem : report.problems) ADD_FAILURE() << problem;
  }

 protected:
  static pmem::Offset OffsetIn(const pmem::Word& word) {
    uint64_t offset;
    EXPECT_TRUE(ReadChecked(word.Load(), &offset));
    return offset;
  }

 private:
  template <class Make>
  TestEngine(const EngineInfo& info, KeyFormat format, const Options& options, bool inline_pairs,
             Make make)
      : info_(info), arena_(uint64_t{64} << 20) {
    pmem::PoolIdentity identity = pmem::TestArena::Identity();
    identity.key_format = format;
    identity.inline_pairs = inline_pairs;
    arena_.options().chunk_bytes = uint64_t{64} << 10;
    pool_ = arena_.Create(identity);
    context_.pool = pool_.get();
    context_.key_format = format;
    context_.inline_pairs = inline_pairs;
    context_.options = *OptionValues::Parse(info_.options, options);
    absl::StatusOr<std::unique_ptr<Engine>> engine = make(context_);
    EXPECT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }

  const EngineInfo& info_;
  pmem::TestArena arena_;
  std::unique_ptr<pmem::Pool> pool_;
  EngineContext context_;
  std::unique_ptr<Engine> engine_;
  RecoveryReport recovery_;
};

// A fixed64 key or value.
inline std::string Text(uint64_t word) {
  std::string text(8, '\0');
  StoreBigEndian(word, text.data());
  return text;
}
// The n-th of distinct keys in pseudo-random order (an odd factor permutes the words).
inline std::string Scattered(uint64_t n) { return Text(n * 0x9E3779B97F4A7C15ull); }

// Distinct keys in random order, spread unevenly, so that leaves do not fill up at the same time
// (splitmix64 permutes the words).
inline uint64_t RandomWord(uint64_t n) {
  n = (n ^ (n >> 30)) * 0xBF58476D1CE4E5B9ull;
  n = (n ^ (n >> 27)) * 0x94D049BB133111EBull;
  return n ^ (n >> 31);
}

}  // namespace lodgekv
