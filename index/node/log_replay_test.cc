#include "index/node/log_replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "index/pmem/testing/arena_test_util.h"

namespace lodgekv {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr unsigned kEntries = 6;  // L
constexpr uint64_t kKeys = 1000;
constexpr size_t kRanges = 600;  // more than one task of them

constexpr size_t RangeOf(uint64_t word) { return word * kRanges / kKeys; }

// A tree that knows its leaves' watermarks, and what was replayed.
template <class C>
struct TestTree {
  using Key = typename C::Key;
  struct Applied {
    uint64_t word;
    uint64_t sequence;
    uint32_t log;
  };

  static size_t ranges() { return kRanges; }
  static bool LiesBefore(const Key& key, size_t range) { return RangeOf(key.word) < range; }
  uint64_t WatermarkFor(const Key& key) const { return watermarks[RangeOf(key.word)]; }
  bool IsDead(const FoundEntry& entry) const {
    return watermarks[RangeOf(entry.pair.key)] >= entry.sequence;
  }
  bool HasPair(const Key&, Pair) const { return has_pairs; }

  class Replayer {
   public:
    explicit Replayer(TestTree& tree) : tree_(tree) {}
    absl::Status Apply(const FoundEntry& entry, const Key& key, uint32_t log) {
      const std::lock_guard lock(tree_.mutex);
      tree_.applied.push_back({key.word, entry.sequence, log});
      return absl::OkStatus();
    }
    void End() {}

   private:
    TestTree& tree_;
  };

  std::array<uint64_t, kRanges> watermarks{};
  bool has_pairs = false;
  std::mutex mutex;
  std::vector<Applied> applied;
};

template <class C>
class ReplayTest : public ::testing::Test {
 protected:
  ReplayTest() { Open(); }

  // What a process that begins after a crash sees.
  void Reopen() {
    horizon_.reset();
    log_.reset();
    slab_.reset();
    pool_ = nullptr;
    pool_ = arena_.Open();
    Open();
    slab_->Adopt();
    log_->Adopt(pool_->Chunks());
    tree_.applied.clear();
  }
  uint64_t Append(Pair pair, LogOp op = LogOp::kPut, unsigned left = 0, uint32_t crc = 0) {
    if (!in_group_) {
      EXPECT_TRUE(log_->ReserveInOneLog(left + 1, pmem::ReservePolicy::kKeep));
    }
    in_group_ = left != 0;
    const uint64_t sequence = pool_->TakeSequence(1);
    (void)log_->Append(pair, sequence, op, left, crc);
    pool_->medium().Fence();
    return sequence;
  }
  absl::Status Replay(unsigned threads = 1) {
    context_.recovery_threads = threads;
    replay_ = std::make_unique<LogReplay<C, TestTree<C>>>(
        LogRecovery<C>{*pool_, *slab_, *codec_, *log_, *horizon_, *settler_, context_, "test"},
        tree_);
    absl::Status status = replay_->Choose();
    if (!status.ok()) return status;
    slab_->FinishMark();
    log_->TakeOwnChunks();
    for (pmem::UnitArena* arena : log_->arenas()) arena->FinishMark();
    return replay_->Replay();
  }
  // The numbers of what was replayed, ascending.
  std::vector<uint64_t> Replayed() const {
    std::vector<uint64_t> sequences;
    for (const auto& applied : tree_.applied) sequences.push_back(applied.sequence);
    std::sort(sequences.begin(), sequences.end());
    return sequences;
  }

  pmem::TestArena arena_{1 << 20};
  std::unique_ptr<pmem::Pool> pool_ = arena_.Create();
  std::unique_ptr<pmem::RecordSlab> slab_;
  std::unique_ptr<C> codec_;
  std::unique_ptr<AppendLog> log_;
  std::unique_ptr<FenceHorizon> horizon_;
  EngineContext context_;
  TestTree<C> tree_;
  std::unique_ptr<LogReplay<C, TestTree<C>>> replay_;

 private:
  void Open() {
    settler_.emplace(pool_->medium(), true);
    slab_ = std::make_unique<pmem::RecordSlab>(*pool_);
    codec_ = std::make_unique<C>(*pool_, slab_.get(), false);
    log_ = std::make_unique<AppendLog>(*pool_, kEntries, [] { return uint64_t{1} << 20; });
    horizon_ = std::make_unique<FenceHorizon>(*pool_, pool_->engine_area()[0]);
  }
  bool in_group_ = false;
  std::optional<Settler> settler_;
};

// --- words alone ---

using LogReplayTest = ReplayTest<Fixed64Codec>;

// Of each key the newest entry above its leaf's watermark, in order of numbers within a range.
TEST_F(LogReplayTest, ReplaysTheNewestEntryOfEachKeyAboveItsWatermark) {
  std::mt19937_64 random(5);
  std::map<uint64_t, uint64_t> newest;
  for (unsigned i = 0; i < 4000; ++i) {
    const uint64_t word = random() % kKeys;
    newest[word] = Append({word, i}, i % 3 == 0 ? LogOp::kDelete : LogOp::kPut);
  }
  for (uint64_t& watermark : tree_.watermarks) watermark = random() % pool_->PeekSequence();
  std::vector<uint64_t> expected;
  for (const auto& [word, sequence] : newest) {
    if (sequence > tree_.watermarks[RangeOf(word)]) expected.push_back(sequence);
  }
  std::sort(expected.begin(), expected.end());
  ASSERT_GT(expected.size(), 50u);
  for (const unsigned threads : {1u, 3u}) {
    Reopen();
    ASSERT_EQ(Replay(threads), absl::OkStatus());
    EXPECT_EQ(Replayed(), expected);
    EXPECT_EQ(replay_->entries(), expected.size());
    EXPECT_LE(replay_->threads(), threads);
    std::array<uint64_t, kRanges> last{};
    for (const auto& applied : tree_.applied) {
      EXPECT_GT(applied.sequence, last[RangeOf(applied.word)]);
      last[RangeOf(applied.word)] = applied.sequence;
    }
  }
}

// Each counts the entries that were replayed from it; all others are free.
TEST_F(LogReplayTest, KeepsTheLogsOfWhatItReplays) {
  for (uint64_t i = 0; i < 20 * kEntries; ++i) Append({i % 8, i});
  Append({500, 0});
  for (uint64_t i = 0; i < 2 * kEntries; ++i) Append({900, i});
  tree_.watermarks[RangeOf(900)] = pool_->PeekSequence();
  Reopen();
  ASSERT_EQ(Replay(), absl::OkStatus());
  std::map<uint32_t, uint32_t> replayed_of;
  for (const auto& applied : tree_.applied) ++replayed_of[applied.log];
  std::map<uint32_t, uint32_t> valid;
  log_->VisitLive([&](uint32_t log, uint32_t count) { valid[log] = count; });
  EXPECT_EQ(valid, replayed_of);
  EXPECT_EQ(replay_->entries(), 9u);
  EXPECT_EQ(valid.size(), 3u);
}

TEST_F(LogReplayTest, TheNewestAppliedIndexKeepsItsLog) {
  for (const uint64_t index : {7u, 12u, 9u}) Append({index, 0}, LogOp::kAppliedIndex);
  Reopen();
  ASSERT_EQ(Replay(), absl::OkStatus());
  EXPECT_THAT(tree_.applied, IsEmpty());
  EXPECT_EQ(replay_->applied_index(), 12u);
  ASSERT_NE(replay_->applied_log(), AppendLog::kNoLog);
  std::vector<uint32_t> live;
  log_->VisitLive([&](uint32_t log, uint32_t valid) {
    live.push_back(log);
    EXPECT_EQ(valid, 1u);
  });
  EXPECT_THAT(live, ElementsAre(replay_->applied_log()));
}

TEST_F(LogReplayTest, AnAppliedIndexInThePoolThatIsNewerCounts) {
  Append({7, 0}, LogOp::kAppliedIndex);
  pool_->PersistAppliedIndex(8);
  Reopen();
  ASSERT_EQ(Replay(), absl::OkStatus());
  EXPECT_EQ(replay_->applied_index(), 8u);
  EXPECT_EQ(replay_->applied_log(), AppendLog::kNoLog);
  EXPECT_EQ(log_->live_bytes(), 0u);
}

// --- with records ---

class LogReplayRecordsTest : public ReplayTest<BytesCodec> {
 protected:
  struct Logged {
    pmem::Offset record;
    uint64_t sequence;
  };
  Logged Put(uint64_t word, unsigned left = 0) {
    char key[8];
    StoreBigEndian(word, key);
    StagedRecord record =
        StageRecord(*pool_, *slab_, {key, 8}, "a value", 0, pmem::ReservePolicy::kKeep);
    FinishRecord(*pool_, record, pool_->PeekSequence());
    const Pair pair{word, BytesCodec::RecordWord(word, record.offset, SlotHash({key, 8}))};
    return {record.offset, Append(pair, LogOp::kPut, left, record.crc)};
  }
  // As if its space had been reused for another record; and back.
  void Flip(const Logged& logged) { pool_->At<uint8_t>(logged.record)[30] ^= 1; }
  void RestoreHorizon(uint64_t fenced_below) {
    Reopen();
    horizon_->Restore(fenced_below);
  }
};

TEST_F(LogReplayRecordsTest, MarksTheRecordsOfWhatItReplays) {
  const Logged old = Put(3);
  const Logged logged = Put(3);
  const uint64_t space = slab_->SpaceAt(logged.record);
  ASSERT_GT(space, 0u);
  Reopen();
  ASSERT_EQ(Replay(), absl::OkStatus());
  EXPECT_THAT(Replayed(), ElementsAre(logged.sequence));
  EXPECT_EQ(slab_->used_bytes(), space);
  EXPECT_NE(old.record, logged.record);
  EXPECT_GE(horizon_->fenced_below(), logged.sequence) << "what was found is fenced";
}

TEST_F(LogReplayRecordsTest, AGroupThatWasNeverFencedIsDroppedForGood) {
  const Logged before = Put(1);
  Put(2, 1);
  const Logged second = Put(3);
  Flip(second);
  RestoreHorizon(before.sequence);
  ASSERT_EQ(Replay(), absl::OkStatus());
  EXPECT_THAT(Replayed(), ElementsAre(before.sequence));
  EXPECT_EQ(replay_->dropped(), 2u);
  // The record is whole again, and still the group is not read.
  Flip(second);
  RestoreHorizon(before.sequence);
  ASSERT_EQ(Replay(), absl::OkStatus());
  EXPECT_THAT(Replayed(), ElementsAre(before.sequence));
  EXPECT_EQ(replay_->dropped(), 0u);
}

TEST_F(LogReplayRecordsTest, AFencedEntryWithoutItsRecordMustBeDead) {
  const Logged damaged = Put(1);
  const Logged other = Put(2);
  Flip(damaged);
  RestoreHorizon(pool_->PeekSequence());
  EXPECT_THAT(std::string(Replay().message()), HasSubstr("test: a log entry whose record is"));
  RestoreHorizon(pool_->PeekSequence());
  tree_.watermarks[RangeOf(1)] = damaged.sequence;
  ASSERT_EQ(Replay(), absl::OkStatus()) << "its leaf has a higher watermark";
  EXPECT_THAT(Replayed(), ElementsAre(other.sequence));
  tree_.watermarks = {};
  const Logged newer = Put(1);
  RestoreHorizon(pool_->PeekSequence());
  ASSERT_EQ(Replay(), absl::OkStatus()) << "a newer entry has its key";
  EXPECT_THAT(Replayed(), ElementsAre(other.sequence, newer.sequence));
}

// An entry that was not in its log's last group was fenced, whatever its number.
TEST_F(LogReplayRecordsTest, DamageIsNotTakenForAnUnfencedGroup) {
  const Logged damaged = Put(1);
  Put(2);
  Flip(damaged);
  RestoreHorizon(0);
  EXPECT_EQ(Replay().code(), absl::StatusCode::kDataLoss);
}

// Two keys cannot have one record; a leaf may have it already, whose watermark was not durable.
TEST_F(LogReplayRecordsTest, ARecordHasOneOwnerButForItsLeaf) {
  const Logged logged = Put(1);
  for (const bool in_leaf : {false, true}) {
    Reopen();
    (void)slab_->Mark(logged.record);
    tree_.has_pairs = in_leaf;
    EXPECT_EQ(Replay().ok(), in_leaf);
  }
}

}  // namespace
}  // namespace lodgekv
