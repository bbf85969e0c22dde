// The journal of a pool over the pool's lifetime: in files, on a disk.
#include "index/pmem/internal/pool_journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "index/pmem/internal/journal_file.h"
#include "index/pmem/pool.h"
#include "index/pmem/testing/temp_dir.h"

namespace lodgekv::pmem {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr uint64_t kMiB = uint64_t{1} << 20;

class PoolJournalTest : public ::testing::Test {
 protected:
  PoolJournalTest() { options_ = OptionsOf("pool"); }
  PoolOptions OptionsOf(const std::string& name) const {
    PoolOptions options;
    options.path = dir_ / name;
    options.size_bytes = 8 * kMiB;
    options.allow_volatile_medium = true;
    return options;
  }
  static absl::StatusOr<std::unique_ptr<Pool>> Create(const PoolOptions& options) {
    PoolIdentity identity;
    identity.engine = "test";
    return Pool::Create(options, identity);
  }
  // Creates a pool that was not closed cleanly, with applied index `index`.
  void MakeKilled(const PoolOptions& options, uint64_t index) {
    auto pool = Create(options);
    ASSERT_TRUE(pool.ok()) << pool.status();
    (*pool)->PersistAppliedIndex(index);
    EXPECT_TRUE((*pool)->Close(false).ok());
  }
  void MakeClosed(const PoolOptions& options) {
    auto pool = Create(options);
    ASSERT_TRUE(pool.ok()) << pool.status();
    EXPECT_TRUE((*pool)->Close(true).ok());
  }
  void ExpectRefused(const PoolOptions& options, const std::string& why) {
    const absl::Status status = Pool::Open(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(status.message(), AllOf(HasSubstr(options.path), HasSubstr(why)));
  }
  void ExpectOpens(const PoolOptions& options, uint64_t index) {
    const auto pool = Pool::Open(options);
    ASSERT_TRUE(pool.ok()) << pool.status();
    EXPECT_EQ((*pool)->applied_index(), index);
  }
  std::string Journal() const { return options_.path + ".journal"; }

  TempDir dir_{TempDir::Disk()};
  PoolOptions options_;
};

TEST_F(PoolJournalTest, LiesBesideThePoolAndGoesWithIt) {
  auto pool = Create(options_);
  ASSERT_TRUE(pool.ok()) << pool.status();
  if ((*pool)->medium_class() != MediumClass::kFile) GTEST_SKIP() << "no disk at " << dir_.path();
  EXPECT_EQ((*pool)->journal_path(), Journal());
  EXPECT_EQ((*pool)->journal_use()->size_bytes, kMiB);
  EXPECT_EQ(fs::file_size(Journal()), kJournalSegmentsBegin + kMiB);
  EXPECT_TRUE((*pool)->CloseAndRemove().ok());
  EXPECT_EQ(dir_.Names(), "");
}

TEST_F(PoolJournalTest, HasTheSizeThatIsAskedFor) {
  options_.journal_bytes = 2 * kMiB + 5;
  const auto pool = Create(options_);
  ASSERT_TRUE(pool.ok()) << pool.status();
  EXPECT_EQ((*pool)->journal_use()->size_bytes, 2 * kMiB);
  EXPECT_EQ(JournalBytes(0, uint64_t{64} << 20).value(), 8 * kMiB);
  EXPECT_EQ(JournalBytes(0, uint64_t{1} << 40).value(), 128 * kMiB);
  EXPECT_THAT(JournalBytes(kMiB - 1, kMiB).status().message(),
              HasSubstr("journal_size 1048575 is out of bounds"));
}

TEST_F(PoolJournalTest, IsNotNeededByAPoolThatWasClosedInOrder) {
  MakeClosed(options_);
  fs::remove(Journal());
  ExpectOpens(options_, 0);
  EXPECT_TRUE(fs::exists(Journal()));
}

TEST_F(PoolJournalTest, MustBeThereWhenItIsNeededAndMayHaveMoved) {
  MakeKilled(options_, 7);
  fs::rename(Journal(), dir_ / "elsewhere");
  ExpectRefused(options_, "needs its journal, which is not at " + Journal());
  options_.journal_path = dir_ / "elsewhere";
  ExpectOpens(options_, 7);
}

TEST_F(PoolJournalTest, OfAnotherSizeIsReplayedAndMadeAnew) {
  MakeKilled(options_, 7);
  options_.journal_bytes = 2 * kMiB;
  ExpectOpens(options_, 7);
  EXPECT_EQ(fs::file_size(Journal()), kJournalSegmentsBegin + 2 * kMiB);
}

TEST_F(PoolJournalTest, OfAnotherPoolIsTakenOverOnlyWhenItIsNotNeeded) {
  PoolOptions other = OptionsOf("other");
  other.journal_path = Journal();
  MakeClosed(options_);
  MakeClosed(other);
  ExpectOpens(options_, 0);  // killed
  const absl::Status status = Pool::Open(other).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), AllOf(HasSubstr(Journal()), HasSubstr("choose another")));
  PoolOptions third = OptionsOf("third");
  third.journal_path = Journal();
  EXPECT_EQ(Create(third).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(fs::exists(third.path));
  ExpectOpens(options_, 0);
}

TEST_F(PoolJournalTest, OfAnotherPoolOrRunIsRefusedWhenThisOneNeedsItsOwn) {
  MakeKilled(options_, 7);
  PoolOptions other = OptionsOf("other");
  MakeKilled(other, 8);
  options_.journal_path = other.path + ".journal";
  ExpectRefused(options_, "it belongs to pool ");
  options_.journal_path.clear();
  fs::copy(options_.path, dir_ / "old");
  ExpectOpens(options_, 7);
  fs::copy(dir_ / "old", options_.path, fs::copy_options::overwrite_existing);
  ExpectRefused(options_, "another run of it");
}

TEST_F(PoolJournalTest, OfALaterRunIsNotWrittenOverByAnOlderCopy) {
  MakeClosed(options_);
  PoolOptions copy = OptionsOf("copy");
  fs::copy(options_.path, copy.path);
  {
    auto pool = Pool::Open(options_);
    ASSERT_TRUE(pool.ok()) << pool.status();
    (*pool)->PersistAppliedIndex(7);
    EXPECT_TRUE((*pool)->Close(false).ok());
  }
  copy.journal_path = Journal();
  ExpectRefused(copy, "needed by another copy of this pool");
  ExpectOpens(options_, 7);  // and is killed
  // With a journal of its own it may.
  copy.journal_path.clear();
  ExpectOpens(copy, 0);
}

// Pool and journal, as they are or were, of a run.
class PoolJournalMomentTest : public PoolJournalTest {
 protected:
  // A run of two moments, between which `between` happens; then it is killed.
  void RunOfTwoMoments(const std::function<void(Pool&)>& between) {
    auto pool = Create(options_);
    ASSERT_TRUE(pool.ok()) << pool.status();
    if ((*pool)->medium_class() != MediumClass::kFile) GTEST_SKIP() << "no disk";
    marks_ = (*pool)->OffsetOf((*pool)->engine_area().data()) -
             offsetof(media::Header, engine_area) + offsetof(media::Header, checkpoint_mark);
    (*pool)->PersistAppliedIndex(1);
    Keep("old");
    between(**pool);
    (*pool)->PersistAppliedIndex(7);
    Keep("new");
    EXPECT_TRUE((*pool)->Close(false).ok());
  }
  // Of more lines than a group, the segments and the journal take: checkpoints are made.
  static void FillTheJournal(Pool& pool) {
    const auto chunk = pool.AcquireChunk(ChunkUse::kNodes, 256, ReservePolicy::kKeep);
    ASSERT_TRUE(chunk.ok()) << chunk.status();
    const uint64_t before = pool.journal_use()->checkpoints;
    while (pool.journal_use()->checkpoints < before + 3) {
      pool.medium().Persist(pool.At<char>(chunk->begin), 64 * kLineBytes);
    }
  }
  void Keep(const std::string& moment) {
    fs::copy(options_.path, dir_ / (moment + ".pool"));
    fs::copy(Journal(), dir_ / (moment + ".journal"));
  }
  void SetMarks(const std::string& pool, uint64_t word) const {
    std::fstream file(pool, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(marks_));
    for (int i = 0; i < 2; ++i) file.write(reinterpret_cast<const char*>(&word), sizeof word);
  }
  PoolOptions Mix(const std::string& pool, const std::string& journal) {
    PoolOptions mix = OptionsOf("mix");
    const auto again = fs::copy_options::overwrite_existing;
    fs::copy(dir_ / (pool + ".pool"), mix.path, again);
    fs::copy(dir_ / (journal + ".journal"), mix.path + ".journal", again);
    return mix;
  }

  uint64_t marks_ = 0;  // offset in the pool
};

TEST_F(PoolJournalMomentTest, OfAnotherMomentIsRefused) {
  RunOfTwoMoments(FillTheJournal);
  if (IsSkipped()) return;
  ExpectRefused(Mix("new", "old"), "but to an earlier moment");
  ExpectRefused(Mix("old", "new"), "but to a later moment");
  ExpectRefused(Mix("old", "new"), "restore both as they were at one moment");
  ExpectOpens(Mix("old", "old"), 1);
  ExpectOpens(Mix("new", "new"), 7);
}

// The older pool has all that is not in the newer journal.
TEST_F(PoolJournalMomentTest, OfAnotherMomentWithoutACheckpointBetween) {
  RunOfTwoMoments([](Pool&) {});
  if (IsSkipped()) return;
  ExpectRefused(Mix("new", "old"), "but to an earlier moment");
  ExpectOpens(Mix("old", "new"), 7);
}

// As earlier versions leave it.
TEST_F(PoolJournalMomentTest, IsNotAskedForByAPoolWithoutMarks) {
  RunOfTwoMoments(FillTheJournal);
  if (IsSkipped()) return;
  const PoolOptions pool = Mix("new", "new");
  SetMarks(pool.path, 0);
  ExpectOpens(pool, 7);
}

TEST_F(PoolJournalMomentTest, IsNotAskedForByAPoolThatNeedsNoJournal) {
  RunOfTwoMoments(FillTheJournal);
  if (IsSkipped()) return;
  const PoolOptions pool = Mix("new", "new");
  EXPECT_TRUE(Pool::Open(pool).value()->Close(true).ok());
  SetMarks(pool.path, EncodeMark(1000));  // as a kill leaves them while the journal ends
  ExpectOpens(pool, 7);
  ExpectOpens(pool, 7);
}

TEST_F(PoolJournalMomentTest, IsUnknownIfAMarkIsDamaged) {
  RunOfTwoMoments(FillTheJournal);
  if (IsSkipped()) return;
  for (unsigned bit = 0; bit < 64; ++bit) {
    const PoolOptions pool = Mix("new", "new");
    SetMarks(pool.path, EncodeMark(3) ^ uint64_t{1} << bit);
    const absl::Status status = Pool::Open(pool).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << bit << ": " << status;
    EXPECT_THAT(status.message(), HasSubstr("a mark of its journal"));
  }
}

// A kill behind the journal's header leaves one that is needed, of a pool that needs none.
TEST_F(PoolJournalTest, WithoutGroupsIsTakenOver) {
  {
    auto pool = Create(options_);
    ASSERT_TRUE(pool.ok()) << pool.status();
    ASSERT_TRUE((*pool)->AcquireChunk(ChunkUse::kNodes, 256, ReservePolicy::kKeep).ok());
    EXPECT_TRUE((*pool)->Close(true).ok());
  }
  const std::string closed = dir_ / "closed";
  fs::copy(options_.path, closed);
  options_.verify_at_use = true;
  ExpectOpens(options_, 0);  // and is killed before it is put to use
  fs::copy(closed, options_.path, fs::copy_options::overwrite_existing);
  ExpectOpens(options_, 0);
}

TEST_F(PoolJournalTest, NothingElseIsWrittenOver) {
  MakeClosed(options_);
  fs::remove(Journal());
  std::ofstream(Journal()) << std::string(100'000, 'x');
  ExpectRefused(options_, "it is in the way");
  EXPECT_EQ(fs::file_size(Journal()), 100'000U);
  // It begins like an unfinished journal, but has content.
  std::ofstream(Journal()) << std::string(65'536, '\0') << std::string(4'096, 'x');
  ExpectRefused(options_, "it is in the way");
  EXPECT_EQ(fs::file_size(Journal()), 69'632u);
  fs::remove(Journal());
  fs::create_directory(Journal());
  EXPECT_FALSE(Pool::Open(options_).ok());
  EXPECT_TRUE(fs::is_directory(Journal()));
}

TEST_F(PoolJournalTest, IsOnePools) {
  PoolOptions other = OptionsOf("other");
  other.journal_path = Journal();
  const auto pool = Create(options_);
  ASSERT_TRUE(pool.ok()) << pool.status();
  const absl::Status status = Create(other).status();
  EXPECT_THAT(status.message(), HasSubstr("in use by another process"));
  EXPECT_EQ(dir_.Names().find("other"), std::string::npos);
}

TEST_F(PoolJournalTest, IsNotMadeWhereNothingNeedsIt) {
  options_.process_durability = true;
  MakeKilled(options_, 1);
  EXPECT_EQ(dir_.Names(), "pool");
  TempDir memory;
  options_.process_durability = false;
  options_.path = memory / "pool";
  MakeKilled(options_, 1);
  EXPECT_EQ(memory.Names(), "pool");
}

}  // namespace
}  // namespace lodgekv::pmem
