#include "server/front_door/control_frames.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace lodgekv::server {
namespace {

using Bytes = std::vector<uint8_t>;
using Verdict = ControlFrames::Verdict;

enum Kind : uint8_t {
  kData = 0,
  kHeaders = 1,
  kPriority = 2,
  kReset = 3,
  kSettings = 4,
  kPing = 6,
  kGoaway = 7,
  kWindowUpdate = 8,
  kContinuation = 9,
  kUnknown = 77,
};
constexpr uint8_t kEndStream = 1;
constexpr uint8_t kPadded = 8;

Bytes Frame(uint8_t kind, uint32_t length, uint8_t flags = 0) {
  Bytes frame{static_cast<uint8_t>(length >> 16),
              static_cast<uint8_t>(length >> 8),
              static_cast<uint8_t>(length),
              kind,
              flags,
              0,
              0,
              0,
              1};
  // What looks like heads of other frames.
  for (uint32_t i = 0; i < length; ++i) frame.push_back(i % 9 == 2 ? 9 : i % 9 == 3 ? kPing : 0);
  return frame;
}

Bytes Joined(const std::vector<Bytes>& frames) {
  Bytes all;
  for (const Bytes& frame : frames) all.insert(all.end(), frame.begin(), frame.end());
  return all;
}

Bytes Preface() {
  const std::string text = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  return {text.begin(), text.end()};
}

TEST(FrameFinderTest, FramesOfNoRequestCount) {
  for (const uint8_t kind :
       {kPriority, kReset, kSettings, kPing, kGoaway, kWindowUpdate, kContinuation, kUnknown}) {
    FrameFinder finder;
    EXPECT_EQ(finder.Find(Joined({Preface(), Frame(kind, 8), Frame(kind, 0), Frame(kind, 5)})), 3)
        << int{kind};
  }
}

TEST(FrameFinderTest, DataCountsIfItIsHardlyAny) {
  EXPECT_EQ(FrameFinder().Find(Frame(kData, 5)), 0);
  EXPECT_EQ(FrameFinder().Find(Frame(kData, 0, kEndStream)), 0);
  EXPECT_EQ(FrameFinder().Find(Frame(kData, 0)), 1);
  EXPECT_EQ(FrameFinder().Find(Frame(kData, 4)), 1);
  EXPECT_EQ(FrameFinder().Find(Frame(kData, 100, kPadded)), 1);
}

TEST(FrameFinderTest, ARequestBringsSome) {
  FrameFinder finder;
  EXPECT_EQ(finder.Find(Joined({Frame(kHeaders, 300), Frame(kData, 30), Frame(kPing, 8)})),
            1 - FrameFinder::kPerRequest);
}

TEST(FrameFinderTest, FramesComeInAnyPieces) {
  const Bytes sent = Joined({Preface(), Frame(kSettings, 18), Frame(kHeaders, 40),
                             Frame(kData, 17'000), Frame(kWindowUpdate, 4), Frame(kPing, 8)});
  for (size_t piece = 1; piece < 60; ++piece) {
    FrameFinder finder;
    int64_t found = 0;
    for (size_t at = 0; at < sent.size(); at += piece) {
      const size_t bytes = std::min(piece, sent.size() - at);
      found += finder.Find(std::span(sent).subspan(at, bytes));
    }
    EXPECT_EQ(found, 3 - FrameFinder::kPerRequest) << piece;
  }
}

class ControlFramesTest : public ::testing::Test {
 protected:
  static ControlFrames::Time Now() { return now_; }

  // Of `count` pings of a connection.
  Verdict Add(const void* connection, int64_t count) {
    static const Bytes ping = Frame(kPing, 8);
    Verdict last = Verdict::kFew;
    for (int64_t i = 0; i < count; ++i) {
      const Verdict verdict = frames_.Add(connection, ping);
      if (verdict != Verdict::kFew) ++not_few_;
      last = verdict;
    }
    return last;
  }

  static inline ControlFrames::Time now_;
  ControlFrames frames_{Now};
  int64_t not_few_ = 0;
  const int a_ = 0, b_ = 0;  // connections
};

TEST_F(ControlFramesTest, AFloodIsEndedWithinTwiceTheMost) {
  now_ += std::chrono::hours(1);
  const int64_t most = ControlFrames::kMostPerSecond;
  EXPECT_EQ(Add(&a_, 2 * most + 1), Verdict::kFew);
  EXPECT_EQ(Add(&b_, most), Verdict::kFew);
  EXPECT_EQ(Add(&a_, 1), Verdict::kTooMany);
  EXPECT_EQ(Add(&a_, 5), Verdict::kEnded);
  EXPECT_EQ(not_few_, 6);
  EXPECT_EQ(frames_.Add(&a_, Frame(kHeaders, 5)), Verdict::kEnded) << "the connection is over";
}

TEST_F(ControlFramesTest, AtTheMostPerSecondNothingEnds) {
  for (int second = 0; second < 20; ++second) {
    now_ += std::chrono::seconds(1);
    ASSERT_EQ(Add(&a_, ControlFrames::kMostPerSecond), Verdict::kFew) << second;
  }
}

TEST_F(ControlFramesTest, ManyRequestsMayHaveMany) {
  for (int64_t i = 0; i < ControlFrames::kMostPerSecond; ++i) {
    ASSERT_EQ(Add(&a_, FrameFinder::kPerRequest), Verdict::kFew) << i;
    ASSERT_EQ(frames_.Add(&a_, Joined({Frame(kHeaders, 50), Frame(kData, 20, kEndStream)})),
              Verdict::kFew);
  }
}

TEST_F(ControlFramesTest, AConnectionAtTheSameAddressBeginsAnew) {
  now_ += std::chrono::hours(1);
  EXPECT_EQ(Add(&a_, 3 * ControlFrames::kMostPerSecond), Verdict::kEnded);
  EXPECT_EQ(frames_.size(), 1);
  frames_.Forget(&a_);
  EXPECT_EQ(frames_.size(), 0);
  EXPECT_EQ(Add(&a_, 1), Verdict::kFew);
}

}  // namespace
}  // namespace lodgekv::server
