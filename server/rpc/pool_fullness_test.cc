#include "server/rpc/pool_fullness.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "server/base/log.h"

namespace lodgekv::server {
namespace {

using std::chrono::milliseconds;

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
              pool.NoteApplied();
              for (int i = 0; i < 3; ++i) pool.NoteFull();
              EXPECT_TRUE(pool.full());
              for (int i = 0; i < 3; ++i) pool.NoteApplied();
              EXPECT_FALSE(pool.full());
              pool.NoteFull();
            }),
            "FRF");
}

TEST(PoolFullnessTest, LinesAreLimitedInRateAndTheLastIsCorrect) {
  constexpr milliseconds kPace(200);
  PoolFullness pool(kPace);
  EXPECT_EQ(LinesOf([&] {
              for (int i = 0; i < 100; ++i) {
                pool.NoteFull();
                pool.NoteApplied();
              }
            }),
            "F");
  EXPECT_FALSE(pool.full());
  std::this_thread::sleep_for(kPace);
  EXPECT_EQ(LinesOf([&] { pool.NoteApplied(); }), "R");
  EXPECT_EQ(LinesOf([&] { pool.NoteApplied(); }), "");
}

}  // namespace
}  // namespace lodgekv::server
