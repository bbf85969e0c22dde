// Pools with their own settings: words that tear, and no space.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "index/sstree/sstree_test_util.h"

namespace lodgekv::sstree {
namespace {

// Knows what of one line is durable, and calls back at crash points.
class LineTracer final : public pmem::Tracer {
 public:
  void OnStore(const void*, size_t, bool) override {}
  void OnFlush(const void* line) override { flushed |= line == watched; }
  void OnFence() override {
    if (flushed) durable = watched->next.Load();
    flushed = false;
  }
  void OnCrashPoint(std::string_view name) override {
    if (at_point) at_point(name);
  }
  bool OnCanary(std::string_view) override { return false; }

  std::function<void(std::string_view)> at_point;
  const media::Subnode* watched = nullptr;
  bool flushed = false;
  uint64_t durable = 0;
};

class SmallPool {
 public:
  SmallPool(size_t bytes, bool strict, const TestEngine::Options& options,
            KeyFormat format = KeyFormat::kFixed64)
      : arena_(bytes) {
    arena_.options().chunk_bytes = 8192;
    arena_.options().strict_order = strict;
    arena_.options().tracer = &tracer;
    pmem::PoolIdentity identity = pmem::TestArena::Identity();
    identity.key_format = format;
    identity.inline_pairs = format == KeyFormat::kBytes;
    pool_ = arena_.Create(identity);
    context_.pool = pool_.get();
    context_.key_format = format;
    context_.inline_pairs = identity.inline_pairs;
    context_.options = *OptionValues::Parse(GetEngineInfo().options, options);
    engine_ = *GetEngineInfo().create(context_);
  }
  ~SmallPool() { engine_.reset(); }

  absl::Status OpenImage(const std::string& image) {
    engine_.reset();
    pool_.reset();
    std::memcpy(arena_.data(), image.data(), image.size());
    pool_ = arena_.Open();
    context_.pool = pool_.get();
    RecoveryReport report;
    auto engine = GetEngineInfo().recover(context_, &report);
    if (!engine.ok()) return engine.status();
    engine_ = *std::move(engine);
    return absl::OkStatus();
  }
  absl::Status ReopenWith(const TestEngine::Options& options) {
    context_.options = *OptionValues::Parse(GetEngineInfo().options, options);
    return OpenImage(Image());
  }
  std::string Image() { return {reinterpret_cast<const char*>(arena_.data()), arena_.size()}; }
  Outcome Write(std::vector<WriteOp> ops, const WriteOptions& options = {}) {
    std::vector<WriteResult> results(ops.size());
    return engine_->Write(ops, results, options);
  }
  Outcome Put(std::string_view key, std::string_view value) {
    return Write({{.kind = WriteKind::kPut, .key = key, .value = value}});
  }
  Outcome Put(uint64_t key, uint64_t value) { return Put(Text(key), Text(value)); }
  Outcome Delete(std::string_view key) { return Write({{.kind = WriteKind::kDelete, .key = key}}); }
  Outcome Delete(uint64_t key) { return Delete(Text(key)); }
  std::string Get(std::string_view view) {
    ReadResult result;
    EXPECT_EQ(engine_->Read({&view, 1}, {&result, 1}, {}), Outcome::kOk);
    return result.found ? result.value : "none";
  }
  Engine& engine() { return *engine_; }
  pmem::Pool& pool() { return *pool_; }
  pmem::TestArena& arena() { return arena_; }

  LineTracer tracer;

 private:
  pmem::TestArena arena_;
  std::unique_ptr<pmem::Pool> pool_;
  EngineContext context_;
  std::unique_ptr<Engine> engine_;
};

// The last pair of a leaf of two subnodes is deleted, so that its head is dropped with a word that
// is zero, and the process is killed before the free tag is durable.
TEST(TornTagTest, TheTagOfAnEmptyHeadIsDurableBeforeItsSpaceIsUsedAgain) {
  SmallPool pool(size_t{1} << 20, /*strict=*/true, {});
  for (uint64_t i = 1; i <= 28 + 15; ++i) ASSERT_EQ(pool.Put(i, i), Outcome::kOk);
  std::string killed;
  const media::Subnode* head = nullptr;
  pool.tracer.at_point = [&](std::string_view name) {
    if (name == "sstree.drop.1") killed = pool.Image();
  };
  ASSERT_EQ(pool.Delete(43), Outcome::kOk);  // alone in the head
  for (uint64_t i = 29; i <= 42; ++i) ASSERT_EQ(pool.Delete(i), Outcome::kOk);
  ASSERT_FALSE(killed.empty());
  // The subnode that was being dropped: the only one of which tag and word are zero, that was used.
  pool.tracer.at_point = nullptr;
  const auto* memory = reinterpret_cast<const char*>(pool.arena().data());
  for (const pmem::Chunk& chunk : pool.pool().Chunks()) {
    if (chunk.use != pmem::ChunkUse::kNodes) continue;
    for (uint64_t at = 0; at < chunk.bytes; at += sizeof(media::Subnode)) {
      const auto* subnode = pool.pool().At<media::Subnode>(chunk.begin + at);
      if (subnode->next.Load() == media::kFree && subnode->word.Load() == 0 &&
          subnode->fingerprints[0].Load() != 0) {
        EXPECT_EQ(head, nullptr);
        head = subnode;
      }
    }
  }
  ASSERT_NE(head, nullptr);
  const size_t offset = static_cast<size_t>(reinterpret_cast<const char*>(head) - memory);
  pool.tracer.watched = head;
  pool.tracer.flushed = false;
  pool.tracer.durable = media::End();
  ASSERT_TRUE(pool.OpenImage(killed).ok());
  // Its space becomes a new head of other pairs. The power fails when its word survives.
  std::string cut;
  pool.tracer.at_point = [&](std::string_view name) {
    if (name != "sstree.replace.1" || !cut.empty()) return;
    if (head->word.Load() == 0 || (head->word.Load() & media::kValidMask) >> kSubnodeSlots == 0) {
      return;
    }
    cut = pool.Image();
    auto* word = reinterpret_cast<uint64_t*>(cut.data() + offset);
    EXPECT_EQ(*word, media::kFree);
    *word = pool.tracer.durable;
  };
  for (uint64_t i = 1000; i > 0 && cut.empty(); --i) {
    ASSERT_EQ(pool.Put(1000 + RandomWord(i) % 100'000'000, i), Outcome::kOk);
  }
  ASSERT_FALSE(cut.empty());
  pool.tracer.at_point = nullptr;
  pool.tracer.watched = nullptr;
  pool.tracer.flushed = false;
  const absl::Status status = pool.OpenImage(cut);
  EXPECT_TRUE(status.ok()) << status;
}

// A batch that has set space aside for its puts does not fail afterwards.
class FullPoolTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kLeaves = 40;
  static constexpr const char* kValue = "12345678";

  static std::string KeyOf(uint64_t leaf, uint64_t n) { return Text((leaf + 1) << 40 | n); }

  // Full leaves, of keys put in the order of `numbers`; then so many other pairs that little space
  // is left, but some for intents of any length.
  void Fill(const std::vector<uint64_t>& numbers) {
    for (uint64_t leaf = 0; leaf < kLeaves; ++leaf) {
      for (const uint64_t n : numbers) {
        ASSERT_EQ(pool_->Put(KeyOf(leaf, n), kValue), Outcome::kOk);
      }
    }
    for (size_t bytes = 40; bytes < 1100; bytes += 16) {
      ASSERT_EQ(pool_->Put("record" + std::to_string(bytes), std::string(bytes, 'x')),
                Outcome::kOk);
    }
    while (pool_->Put(FillerAt(fillers_), "x") == Outcome::kOk) ++fillers_;
    DeleteFillers(200);
  }
  static std::string FillerAt(uint64_t i) { return "w" + std::to_string(1'000'000 + i); }
  void DeleteFillers(uint64_t count) {
    for (; count > 0; --count) ASSERT_EQ(pool_->Delete(FillerAt(--fillers_)), Outcome::kOk);
  }
  // Of so many puts, each into another leaf, which is full.
  void ExpectWholeOrNotAtAll(uint64_t puts) {
    std::vector<std::string> keys;
    for (uint64_t leaf = 0; leaf < puts; ++leaf) keys.push_back(KeyOf(leaf, 400));
    std::vector<WriteOp> ops;
    for (const std::string& key : keys) {
      ops.push_back({.kind = WriteKind::kPut, .key = key, .value = kValue});
    }
    const Outcome outcome = pool_->Write(ops, {.atomic = true, .applied_index = 2});
    done_ = outcome == Outcome::kOk;
    uint64_t there = 0;
    for (const std::string& key : keys) there += pool_->Get(key) != "none" ? 1 : 0;
    EXPECT_EQ(there, done_ ? puts : 0)
        << "of " << puts << " puts, outcome " << static_cast<int>(outcome);
    EXPECT_EQ(pool_->engine().AppliedIndex(), done_ ? 2u : 0u);
  }
  void ExpectEachWholeOrNotAtAll() {
    for (uint64_t puts = kLeaves; puts > 0 && !done_ && !HasFailure(); --puts) {
      ExpectWholeOrNotAtAll(puts);
    }
    EXPECT_EQ(pool_->engine().Check().problem_count, 0u);
  }

  std::unique_ptr<SmallPool> pool_;
  uint64_t fillers_ = 0;
  bool done_ = false;
};

TEST_F(FullPoolTest, ABatchWhoseLeavesSplitTwiceIsWholeOrNotAtAll) {
  pool_ = std::make_unique<SmallPool>(size_t{1} << 20, /*strict=*/false,
                                      TestEngine::Options{{"fill_holes", "0"}}, KeyFormat::kBytes);
  // The upper keys are in the overflow subnode, and the lower ones in the head.
  std::vector<uint64_t> numbers(28);
  std::iota(numbers.begin(), numbers.begin() + 14, 1000);
  std::iota(numbers.begin() + 14, numbers.end(), 500);
  Fill(numbers);
  ExpectEachWholeOrNotAtAll();
  EXPECT_TRUE(done_);
}

// Each of its splits takes three pairs from a leaf of 28, of which those that stay may have all the
// slots that are still used.
TEST_F(FullPoolTest, ABatchAfterAnOpeningWithFewerSlotsIsWholeOrNotAtAll) {
  pool_ = std::make_unique<SmallPool>(size_t{1} << 20, /*strict=*/false, TestEngine::Options{},
                                      KeyFormat::kBytes);
  std::vector<uint64_t> numbers(28);
  std::iota(numbers.begin(), numbers.end(), 500);
  std::shuffle(numbers.begin(), numbers.end(), std::mt19937_64(7));
  Fill(numbers);
  ASSERT_TRUE(pool_->ReopenWith({{"leaf_slots", "4"}}).ok());
  ExpectEachWholeOrNotAtAll();
  DeleteFillers(fillers_);
  ExpectEachWholeOrNotAtAll();
  EXPECT_TRUE(done_);
}

}  // namespace
}  // namespace lodgekv::sstree
