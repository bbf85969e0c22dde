#include "server/rpc/pool_fullness.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "server/base/log.h"

namespace lodgekv::server {
namespace {

using std::chrono::milliseconds;

void NoteRefused(PoolFullness& pool) {
  const WriteOp put{.kind = WriteKind::kPut};
  const WriteResult result{.outcome = Outcome::kPoolFull};
  pool.NoteWrites(result.outcome, {&put, 1}, {&result, 1});
}

void NotePut(PoolFullness& pool) {
  const WriteOp put{.kind = WriteKind::kPut};
  const WriteResult result;
  pool.NoteWrites(result.outcome, {&put, 1}, {&result, 1});
}

void NoteDelete(PoolFullness& pool, bool found) {
  const WriteOp del{.kind = WriteKind::kDelete};
  const WriteResult result{.found = found};
  pool.NoteWrites(result.outcome, {&del, 1}, {&result, 1});
}

// The lines about the pool that `story` causes, as F and R.
template <class Story>
std::string LinesOf(Story story) {
  ::testing::internal::CaptureStderr();
  story();
  FlushLog();
  const std::string log = ::testing::internal::GetCapturedStderr();
  std::string lines;
  for (size_t at = log.find("the pool "); at != std::string::npos;
       at = log.find("the pool ", at + 1)) {
    lines += log.compare(at, 16, "the pool is full") == 0 ? 'F' : 'R';
  }
  return lines;
}

TEST(PoolFullnessTest, EachChangeIsLoggedOnce) {
  PoolFullness pool(milliseconds(0));
  EXPECT_EQ(LinesOf([&] {
              NotePut(pool);
              for (int i = 0; i < 3; ++i) NoteRefused(pool);
              EXPECT_TRUE(pool.full());
              for (int i = 0; i < 3; ++i) NotePut(pool);
              EXPECT_FALSE(pool.full());
              NoteRefused(pool);
            }),
            "FRF");
}

TEST(PoolFullnessTest, LinesAreLimitedInRateAndTheLastIsCorrect) {
  constexpr milliseconds kPace(200);
  PoolFullness pool(kPace);
  EXPECT_EQ(LinesOf([&] {
              for (int i = 0; i < 100; ++i) {
                NoteRefused(pool);
                NotePut(pool);
              }
            }),
            "F");
  EXPECT_FALSE(pool.full());
  std::this_thread::sleep_for(kPace);
  EXPECT_EQ(LinesOf([&] { NotePut(pool); }), "R");
  EXPECT_EQ(LinesOf([&] { NotePut(pool); }), "");
}

TEST(PoolFullnessTest, ADeleteChangesNothingWhilePutsAreRefused) {
  PoolFullness pool(milliseconds(0));
  EXPECT_EQ(LinesOf([&] {
              for (int i = 0; i < 3; ++i) {
                NoteRefused(pool);
                NoteDelete(pool, true);
                EXPECT_TRUE(pool.full());
              }
              NotePut(pool);
              EXPECT_FALSE(pool.full());
            }),
            "FR");
}

TEST(PoolFullnessTest, ADeleteMakesRoomOnceNoPutWasRefusedForAWhile) {
  PoolFullness pool(milliseconds(0), milliseconds(0));
  EXPECT_EQ(LinesOf([&] {
              NoteRefused(pool);
              EXPECT_TRUE(pool.full());
              NoteDelete(pool, false);
              EXPECT_TRUE(pool.full()) << "it found nothing";
              NoteDelete(pool, true);
              EXPECT_FALSE(pool.full());
              NoteRefused(pool);
              EXPECT_TRUE(pool.full()) << "what was freed before is of no use";
            }),
            "FRF");
}

// With nothing more to be done: so it is reported when somebody looks.
TEST(PoolFullnessTest, TheWhileMayEndAfterTheDelete) {
  constexpr milliseconds kQuiet(200);
  PoolFullness pool(milliseconds(0), kQuiet);
  NoteRefused(pool);
  NoteDelete(pool, true);
  std::this_thread::sleep_for(kQuiet);
  EXPECT_FALSE(pool.full());
}

// A batch has room again if any of it is a put.
TEST(PoolFullnessTest, ABatchCountsAsItsPuts) {
  PoolFullness pool(milliseconds(0));
  const std::vector<WriteOp> ops{{.kind = WriteKind::kDelete}, {.kind = WriteKind::kPut}};
  const std::vector<WriteResult> results{{.found = true}, {}};
  pool.NoteWrites(Outcome::kPoolFull, ops, results);
  EXPECT_TRUE(pool.full());
  pool.NoteWrites(Outcome::kConditionFailed, ops, results);
  EXPECT_TRUE(pool.full());
  pool.NoteWrites(Outcome::kOk, ops, results);
  EXPECT_FALSE(pool.full());
}

}  // namespace
}  // namespace lodgekv::server
