// A disk on which one call fails: the first, the second, and so on. What was acknowledged before is
// there when the pool is opened again, and nothing is acknowledged after. A process that is started
// on the same disk finds in memory what the kernel will not write by itself: what it acknowledges
// is there, too.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "index/pmem/pool.h"
#include "tests/crash/lab/model_disk.h"

namespace lodgekv::test {
namespace {

using pmem::Chunk;
using pmem::Offset;
using pmem::Pool;
using pmem::Word;

constexpr uint64_t kBytes = uint64_t{256} << 10;
constexpr uint64_t kPage = 4096;
constexpr uint64_t kChunk = 16384;  // more lines than one fence takes through the journal
constexpr uint64_t kJournalBytes = 65536;
constexpr unsigned kImages = 40;

enum class Fails : uint8_t { kInUse, kWhenOpened };
enum class Then : uint8_t { kUse, kClose };
struct FailingDisk {
  Fails fails;
  Then then;
  const char* name;
};

class FailingDiskTest : public ::testing::TestWithParam<FailingDisk> {
 protected:
  static absl::StatusOr<std::unique_ptr<Pool>> Open(const ArenaMemory& memory, ModelDisk& disk,
                                                    bool create = false) {
    const pmem::ArenaJournal journal{disk.place(), &disk, &disk, kJournalBytes};
    Pool::ArenaOptions options;
    options.memory = memory.span();
    options.chunk_bytes = kChunk;
    options.journal = &journal;
    options.tracer = &disk;
    pmem::PoolIdentity identity;
    identity.engine = "test";
    identity.pool_id[0] = 1;
    return create ? Pool::CreateArena(options, identity) : Pool::OpenArena(options);
  }

  static Chunk Acquire(Pool& pool) {
    const auto chunk = pool.AcquireChunk(pmem::ChunkUse::kNodes, 256, pmem::ReservePolicy::kKeep);
    EXPECT_TRUE(chunk.ok()) << chunk.status();
    return chunk.ok() ? *chunk : Chunk{};
  }

  void Use(Pool& pool) {
    const Chunk chunk = Acquire(pool);
    const Chunk of_words = Acquire(pool);
    for (size_t i = 0; i < words_.size(); ++i) {
      words_[i] = (of_words.begin + (i + 1) * kPage) / kPage * kPage;
    }
    for (unsigned i = 1; i < 60 && !pool.medium().failed(); ++i) {
      if (i % 20 == 0) {
        pool.medium().StoreZeros(pool.base() + chunk.begin, chunk.bytes);
        pool.medium().Flush(pool.base() + chunk.begin, chunk.bytes);
      }
      Persist(pool, i);
      // No flush: a process that is killed now may leave it or not.
      if (i % 20 == 19) pool.medium().Store(*pool.At<Word>(words_[i / 20]), i);
    }
  }

  void Persist(Pool& pool, uint64_t index) {
    tried_ = index;
    pool.PersistAppliedIndex(index);
    const bool acknowledged = !pool.medium().failed();
    EXPECT_FALSE(acknowledged && disk_->fails_at != 0 && disk_->calls() >= disk_->fails_at)
        << "acknowledged after a failure";
    if (acknowledged) acknowledged_ = index;
  }

  // A process that takes over from the one whose disk failed. As recoveries do, it flushes what it
  // finds and does not store it again; then it fills the journal several times. Or it only closes
  // the pool, which vouches for all that lies in chunks.
  void TakeOver() {
    disk_->fails_at = 0;
    const auto pool = Open(memory_, *disk_);
    ASSERT_TRUE(pool.ok()) << pool.status();
    EXPECT_GE((*pool)->applied_index(), acknowledged_);
    if (GetParam().then == Then::kClose) {
      EXPECT_TRUE((*pool)->Close(true).ok());
      return;
    }
    for (size_t i = 0; i < words_.size(); ++i) {
      if (words_[i] == 0) continue;
      Word& word = *(*pool)->At<Word>(words_[i]);
      (*pool)->medium().Persist(&word, sizeof word);
      found_[i] = word.Load();
    }
    const uint64_t from = tried_ + 1;
    for (uint64_t i = from; i < from + 40; ++i) Persist(**pool, i);
  }

  // The disk's content is opened where nothing fails.
  void Check() {
    disk_->fails_at = 0;
    DiskImage image(kBytes);
    for (unsigned i = 0; i < kImages && !HasFailure(); ++i) {
      disk_->Draw(random_, &image);
      CheckOne(image.pool, image.journal);
    }
    // The end of a process loses no data.
    DiskImage left(kBytes);
    disk_->Draw(random_, &left);
    std::memcpy(left.pool.span().data(), memory_.span().data(), kBytes);
    if (!HasFailure()) CheckOne(left.pool, left.journal);
  }

  void CheckOne(const ArenaMemory& memory, const std::vector<std::byte>& journal) {
    ModelDisk disk(memory.span(), journal);
    const auto pool = Open(memory, disk);
    ASSERT_TRUE(pool.ok()) << pool.status();
    EXPECT_GE((*pool)->applied_index(), acknowledged_);
    EXPECT_LE((*pool)->applied_index(), tried_);
    for (size_t i = 0; i < words_.size(); ++i) {
      if (found_[i] == 0) continue;
      EXPECT_EQ((*pool)->At<Word>(words_[i])->Load(), found_[i]) << "word " << i;
    }
  }

  // Returns true if there was no call left to fail.
  bool FailAt(uint64_t n) {
    auto pool = Open(memory_, *disk_, /*create=*/true);
    EXPECT_TRUE(pool.ok()) << pool.status();
    if (GetParam().fails == Fails::kWhenOpened) {
      Use(**pool);
      pool->reset();  // killed
    }
    const uint64_t begun = disk_->calls();
    disk_->fails_at = begun + n;
    if (GetParam().fails == Fails::kWhenOpened) {
      pool = Open(memory_, *disk_);
      if (!pool.ok()) {
        EXPECT_GE(disk_->calls(), disk_->fails_at) << pool.status();
        CheckAndTakeOver();
        return false;
      }
    }
    if (GetParam().fails == Fails::kInUse) Use(**pool);
    const bool closed = (*pool)->Close(true).ok();
    const bool failed = disk_->calls() >= begun + n;
    // Only the write that marks the journal as free may fail without an error.
    if (failed && closed) ++closed_after_failure_;
    pool->reset();
    CheckAndTakeOver();
    return !failed;
  }

  void CheckAndTakeOver() {
    Check();
    if (!HasFailure()) TakeOver();
    if (!HasFailure()) Check();
  }

  Random random_{"a disk that fails"};
  ArenaMemory memory_{kBytes};
  std::unique_ptr<ModelDisk> disk_;
  uint64_t acknowledged_ = 0;
  uint64_t tried_ = 0;
  std::array<Offset, 3> words_{};    // each on a page that is otherwise not used
  std::array<uint64_t, 3> found_{};  // what a process has found in them, and acknowledged
  unsigned closed_after_failure_ = 0;
};

TEST_P(FailingDiskTest, LosesNothingThatWasAcknowledged) {
  // Each round on a disk of its own.
  uint64_t rounds = 0;
  for (bool done = false; !done && !HasFailure(); ++rounds) {
    SCOPED_TRACE(absl::StrCat("call ", rounds + 1));
    memory_ = ArenaMemory(kBytes);
    disk_ = std::make_unique<ModelDisk>(memory_.span(), std::vector<std::byte>());
    acknowledged_ = tried_ = 0;
    words_ = {};
    found_ = {};
    done = FailAt(rounds + 1);
  }
  EXPECT_GT(rounds, GetParam().fails == Fails::kInUse ? 60U : 6U);
  EXPECT_LE(closed_after_failure_, 1U);
}

// The kernel has told the failure to a process that was killed before it could say so.
using GivenUpPagesTest = FailingDiskTest;

TEST_P(GivenUpPagesTest, AreWrittenIfTheyAreFlushed) {
  disk_ = std::make_unique<ModelDisk>(memory_.span(), std::vector<std::byte>());
  {
    const auto pool = Open(memory_, *disk_, /*create=*/true);
    ASSERT_TRUE(pool.ok()) << pool.status();
    Use(**pool);
    disk_->GiveUpPages();
  }
  CheckAndTakeOver();
  EXPECT_NE(found_, decltype(found_){});
}

// A process that was killed before a sync was over has left in the kernel's memory what it would
// have made durable. The next one takes over, and then the power goes off.
using KilledInASyncTest = FailingDiskTest;

struct Killed {
  Killed() : disk(kBytes) {}
  ArenaMemory memory{kBytes};
  DiskImage disk;
};

// The disk's content, and in memory what it does not have.
std::unique_ptr<ModelDisk> DiskOf(const Killed& killed, ArenaMemory* memory) {
  std::memcpy(memory->span().data(), killed.disk.pool.span().data(), kBytes);
  auto disk = std::make_unique<ModelDisk>(memory->span(), killed.disk.journal);
  for (uint64_t at = 0; at < kBytes; at += sizeof(uint64_t)) {
    uint64_t durable;
    uint64_t left;
    std::memcpy(&durable, memory->span().data() + at, sizeof durable);
    std::memcpy(&left, killed.memory.span().data() + at, sizeof left);
    if (left != durable) disk->Store(at, left);
  }
  return disk;
}

constexpr unsigned kDraws = 6;

TEST_P(KilledInASyncTest, IsTakenOverThoughThePowerGoesOffThen) {
  disk_ = std::make_unique<ModelDisk>(memory_.span(), std::vector<std::byte>());
  std::vector<std::unique_ptr<Killed>> all;
  {
    auto pool = Open(memory_, *disk_, /*create=*/true);
    ASSERT_TRUE(pool.ok()) << pool.status();
    Use(**pool);
    pool->reset();  // killed
    disk_->on_moment = [&](Moment) {
      for (unsigned draw = 0; draw < kDraws; ++draw) {
        all.push_back(std::make_unique<Killed>());
        std::memcpy(all.back()->memory.span().data(), memory_.span().data(), kBytes);
        disk_->Draw(random_, &all.back()->disk);
      }
    };
    pool = Open(memory_, *disk_);  // replays the journal, and begins the next one
    ASSERT_TRUE(pool.ok()) << pool.status();
    ASSERT_TRUE((*pool)->Close(true).ok());
    disk_->on_moment = nullptr;
  }
  EXPECT_GT(all.size(), 10 * kDraws);
  for (size_t i = 0; i < all.size() && !HasFailure(); ++i) {
    SCOPED_TRACE(absl::StrCat("killed at moment ", i / kDraws + 1));
    ArenaMemory memory(kBytes);
    const auto disk = DiskOf(*all[i], &memory);
    disk->on_moment = [&](Moment) {
      DiskImage image(kBytes);
      for (unsigned draw = 0; draw < kDraws && !HasFailure(); ++draw) {
        disk->Draw(random_, &image);
        CheckOne(image.pool, image.journal);
      }
    };
    const auto pool = Open(memory, *disk);
    EXPECT_TRUE(pool.ok()) << pool.status();
    disk->on_moment = nullptr;
  }
}

std::string NameOf(const ::testing::TestParamInfo<FailingDisk>& test) { return test.param.name; }

INSTANTIATE_TEST_SUITE_P(
    Calls, FailingDiskTest,
    ::testing::Values(FailingDisk{Fails::kInUse, Then::kUse, "InUse"},
                      FailingDisk{Fails::kInUse, Then::kClose, "ThenClosed"},
                      FailingDisk{Fails::kWhenOpened, Then::kUse, "WhenOpened"},
                      FailingDisk{Fails::kWhenOpened, Then::kClose, "WhenOpenedThenClosed"}),
    NameOf);
INSTANTIATE_TEST_SUITE_P(Then, KilledInASyncTest,
                         ::testing::Values(FailingDisk{Fails::kInUse, Then::kUse, "ThePower"}),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Unnoticed, GivenUpPagesTest,
                         ::testing::Values(FailingDisk{Fails::kInUse, Then::kUse, "Unnoticed"}),
                         NameOf);

}  // namespace
}  // namespace lodgekv::test
