// The laboratory's own tests: the tracer's model, the images drawn from it, the oracle, the names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <thread>

#include "index/pmem/pool.h"
#include "tests/crash/lab/crash_points.h"
#include "tests/crash/lab/image_set.h"
#include "tests/crash/lab/isolated.h"
#include "tests/crash/lab/oracle.h"
#include "tests/support/key_sets.h"

namespace lodgekv::test {
namespace {

using pmem::Medium;
using pmem::Word;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

constexpr size_t kBytes = 4096;
constexpr size_t kWordsOfLine = CrashTracer::kWordsOfLine;

// A traced piece of memory seen as words.
class LabTest : public ::testing::Test {
 protected:
  LabTest() : memory_(kBytes), tracer_(memory_.span()), medium_(OptionsFor(&tracer_)) {}

  static Medium::Options OptionsFor(CrashTracer* tracer) {
    Medium::Options options;
    options.fence_instruction = false;
    options.tracer = tracer;
    return options;
  }
  Word& At(size_t word) { return reinterpret_cast<Word*>(memory_.span().data())[word]; }
  // The first `words` words of every image.
  std::set<std::vector<uint64_t>> Images(CrashModel model, size_t words) {
    std::set<std::vector<uint64_t>> seen;
    const ImageSet images(tracer_, model);
    Random random("images");
    images.Visit(1 << 20, 0, random, [&](const ImageSet::Picks& picks) {
      ArenaMemory image(kBytes);
      std::memcpy(image.span().data(), tracer_.durable().data(), kBytes);
      images.Apply(picks, image.span().data());
      std::vector<uint64_t> content(words);
      std::memcpy(content.data(), image.span().data(), words * sizeof(uint64_t));
      seen.insert(content);
      return true;
    });
    return seen;
  }

  ArenaMemory memory_;
  CrashTracer tracer_;
  Medium medium_;
};

using Image = std::vector<uint64_t>;

TEST_F(LabTest, ALineKeepsAPrefixOfItsStores) {
  medium_.Store(At(0), 1);
  medium_.Store(At(1), 2);
  medium_.Store(At(0), 3);
  EXPECT_THAT(Images(CrashModel::kLinePrefix, 2),
              UnorderedElementsAre(Image{0, 0}, Image{1, 0}, Image{1, 2}, Image{3, 2}));
}

TEST_F(LabTest, TornWordsSurviveOneByOne) {
  medium_.Store(At(0), 1);
  medium_.Store(At(1), 2);
  medium_.Store(At(0), 3);
  EXPECT_THAT(Images(CrashModel::kTornWords, 2),
              UnorderedElementsAre(Image{0, 0}, Image{1, 0}, Image{3, 0}, Image{0, 2}, Image{1, 2},
                                   Image{3, 2}));
}

TEST_F(LabTest, LinesSurviveIndependently) {
  medium_.Store(At(0), 1);
  medium_.Store(At(kWordsOfLine), 1);
  const auto images = Images(CrashModel::kLinePrefix, kWordsOfLine + 1);
  EXPECT_EQ(images.size(), 4U);
}

TEST_F(LabTest, AFlushWithoutAFenceIsNoPromise) {
  medium_.Store(At(0), 1);
  medium_.FlushLine(&At(0));
  EXPECT_EQ(Images(CrashModel::kLinePrefix, 1).size(), 2U);
  medium_.Fence();
  EXPECT_THAT(Images(CrashModel::kLinePrefix, 1), ElementsAre(Image{1}));
}

TEST_F(LabTest, AFenceCoversWhatWasStoredBeforeTheFlush) {
  medium_.Store(At(0), 1);
  medium_.FlushLine(&At(0));
  medium_.Store(At(1), 2);
  medium_.Fence();
  EXPECT_THAT(Images(CrashModel::kLinePrefix, 2), UnorderedElementsAre(Image{1, 0}, Image{1, 2}));
}

TEST_F(LabTest, AFenceWithoutAFlushDoesNothing) {
  medium_.Store(At(0), 1);
  medium_.Fence();
  EXPECT_EQ(Images(CrashModel::kLinePrefix, 1).size(), 2U);
}

TEST_F(LabTest, AFenceIsOneThreadsOwn) {
  medium_.Store(At(0), 1);
  medium_.FlushLine(&At(0));
  std::thread([this] { medium_.Fence(); }).join();
  EXPECT_EQ(Images(CrashModel::kLinePrefix, 1).size(), 2U);
  medium_.Fence();
  EXPECT_EQ(Images(CrashModel::kLinePrefix, 1).size(), 1U);
}

TEST_F(LabTest, StreamedWordsTearUntilTheFence) {
  alignas(64) const uint64_t line[kWordsOfLine] = {1, 2};
  medium_.StreamLine(&At(0), line);
  EXPECT_EQ(Images(CrashModel::kLinePrefix, 2).size(), 4U);
  medium_.Fence();
  EXPECT_THAT(Images(CrashModel::kLinePrefix, 2), ElementsAre(Image{1, 2}));
}

TEST_F(LabTest, StoresThatChangeNothingAreNoChoice) {
  medium_.StoreZeros(&At(0), 64);
  EXPECT_EQ(ImageSet(tracer_, CrashModel::kTornWords).count(), 1U);
}

// Images are drawn before fences only: whatever was possible after any store is possible there too.
TEST_F(LabTest, PositionsAtFencesContainThoseAtStores) {
  for (const CrashModel model : {CrashModel::kLinePrefix, CrashModel::kTornWords}) {
    Random random("positions");
    std::set<Image> at_stores;
    std::set<Image> at_fences;
    const auto look = [&](std::set<Image>* all) { all->merge(Images(model, 2 * kWordsOfLine)); };
    tracer_.before_fence = [&] { look(&at_fences); };
    for (uint64_t i = 1; i <= 120; ++i) {
      const size_t word = random.Below(2) * kWordsOfLine + random.Below(3);
      medium_.Store(At(word), i);
      look(&at_stores);
      if (random.OneIn(2)) medium_.FlushLine(&At(word));
      if (random.OneIn(4)) medium_.Fence();
    }
    medium_.Fence();
    tracer_.before_fence = nullptr;
    for (const Image& image : at_stores) ASSERT_TRUE(at_fences.contains(image));
  }
}

TEST_F(LabTest, AboveTheLimitEdgesAndSamplesAreDrawn) {
  for (size_t line = 0; line < 20; ++line) medium_.Store(At(line * kWordsOfLine), 1);
  const ImageSet images(tracer_, CrashModel::kLinePrefix);
  EXPECT_EQ(images.count(), uint64_t{1} << 20);
  Random random("edges");
  unsigned drawn = 0;
  EXPECT_FALSE(images.Visit(4096, 7, random, [&](const auto&) { return ++drawn > 0; }));
  EXPECT_EQ(drawn, 2 + 2 * 20 + 7U);
}

TEST(FaultsTest, DoWhatTheySay) {
  struct Row {
    Fault::Kind kind;
    size_t images;
  };
  for (const Row& row : {Row{Fault::Kind::kNone, 1}, Row{Fault::Kind::kDropFence, 2},
                         Row{Fault::Kind::kForgetFlushes, 2}, Row{Fault::Kind::kDropFlushes, 1}}) {
    ArenaMemory memory(kBytes);
    CrashTracer tracer(memory.span(), {row.kind, "here"});
    Medium::Options options;
    options.tracer = &tracer;
    Medium medium(options);
    auto& word = *reinterpret_cast<Word*>(memory.span().data());
    medium.Store(word, 1);
    medium.FlushLine(&word);
    medium.CrashPoint("here");
    medium.Fence();
    EXPECT_EQ(ImageSet(tracer, CrashModel::kLinePrefix).count(), row.images)
        << static_cast<int>(row.kind);
    EXPECT_FALSE(medium.Canary("here"));
  }
}

// --- the oracle ---

const EngineCase& FixedCase() {
  static const EngineCase engine_case = [] {
    std::vector<EngineCase> cases = PersistentCases();
    std::erase_if(cases, [](const EngineCase& c) { return !c.fixed64() || c.small_nodes; });
    return cases.front();
  }();
  return engine_case;
}

class OracleTest : public ::testing::Test {
 protected:
  OracleTest() : oracle_(FixedCase()) {
    const StepOp put{WriteKind::kPut, Condition::kNone, Key(1), Value(1), 0, 0};
    Do({.ops = {put}});
  }
  static std::string Key(uint64_t n) { return BigEndian(n); }
  static std::string Value(uint64_t n) { return ValueOf(KeyFormat::kFixed64, n); }
  void Do(const Step& step) {
    oracle_.Begin(step);
    EXPECT_EQ(oracle_.Finish(step, std::vector<WriteResult>(step.ops.size())), std::nullopt);
  }
  // What the oracle reports about an engine that holds these pairs.
  Oracle::Problem Check(const std::vector<std::pair<uint64_t, uint64_t>>& pairs) {
    ArenaMemory memory(128 << 10);
    pmem::Pool::ArenaOptions arena;
    arena.memory = memory.span();
    arena.chunk_bytes = 4096;
    pmem::PoolIdentity identity;
    identity.engine = std::string(FixedCase().engine->name);
    identity.key_format = KeyFormat::kFixed64;
    auto pool = pmem::Pool::CreateArena(arena, identity);
    EngineContext context;
    context.pool = pool->get();
    context.key_format = KeyFormat::kFixed64;
    context.options = OptionsFor(FixedCase());
    auto engine = FixedCase().engine->create(context);
    for (const auto& [key, value] : pairs) {
      const std::string key_bytes = Key(key);
      const std::string value_bytes = Value(value);
      const WriteOp op{WriteKind::kPut, Condition::kNone, key_bytes, value_bytes, 0, 0};
      WriteResult result;
      EXPECT_EQ((*engine)->Write({&op, 1}, {&result, 1}, {}), Outcome::kOk);
    }
    return oracle_.Compare(**engine, {Key(1), Key(2), Key(3)});
  }

  Oracle oracle_;
};

TEST_F(OracleTest, TellsWhatIsLostWrongOrTooMuch) {
  EXPECT_EQ(Check({{1, 1}}), std::nullopt);
  EXPECT_NE(Check({}), std::nullopt);
  EXPECT_NE(Check({{1, 2}}), std::nullopt);
  EXPECT_NE(Check({{1, 1}, {2, 2}}), std::nullopt);
}

TEST_F(OracleTest, TakesBothStatesOfWhatIsInFlight) {
  const StepOp put{WriteKind::kPut, Condition::kNone, Key(1), Value(2), 0, 0};
  const Step step{.ops = {put}};
  oracle_.Begin(step);
  EXPECT_EQ(Check({{1, 1}}), std::nullopt);
  EXPECT_NE(Check({}), std::nullopt);
  EXPECT_EQ(Check({{1, 2}}), std::nullopt);
  oracle_.Adopt();
  EXPECT_NE(Check({{1, 1}}), std::nullopt);
}

TEST_F(OracleTest, TakesAnAtomicGroupWholeOnly) {
  const StepOp first{WriteKind::kPut, Condition::kNone, Key(1), Value(2), 0, 0};
  const StepOp second{WriteKind::kPut, Condition::kNone, Key(2), Value(3), 0, 0};
  Step step{.ops = {first, second}, .atomic = true};
  oracle_.Begin(step);
  EXPECT_EQ(Check({{1, 1}}), std::nullopt);
  EXPECT_EQ(Check({{1, 2}, {2, 3}}), std::nullopt);
  EXPECT_NE(Check({{1, 2}}), std::nullopt);
  step.atomic = false;
  oracle_.Begin(step);
  EXPECT_EQ(Check({{1, 2}}), std::nullopt);
}

TEST_F(OracleTest, ChecksAnswers) {
  const StepOp put{WriteKind::kPut, Condition::kIfAbsent, Key(1), Value(2), 0, 0};
  const Step step{.ops = {put}};
  oracle_.Begin(step);
  EXPECT_NE(oracle_.Finish(step, {{Outcome::kOk, false, 0}}), std::nullopt);
  oracle_.Begin(step);
  EXPECT_EQ(oracle_.Finish(step, {{Outcome::kConditionFailed, true, 0}}), std::nullopt);
}

// --- the rest ---

TEST(IsolatedTest, TellsHowItEnded) {
  EXPECT_EQ(RunIsolated(10, [] { return std::string("done"); }).report, "done");
  EXPECT_NE(RunIsolated(10, []() -> std::string { std::abort(); }).death, "");
}

TEST(NamesTest, AreFoundInTheSources) {
  const NamesInSources names = ReadNames(LODGEKV_INDEX_DIR);
  EXPECT_TRUE(names.crash_points.contains("lodgetree.flush.1"));
  EXPECT_TRUE(names.canaries.contains("lodgetree.split.two_words"));
}

}  // namespace
}  // namespace lodgekv::test
