#include "server/front_door/offenders.h"

#include <gtest/gtest.h>

#include <string>

namespace lodgekv::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr OffenceLimits kLimits{.most = 3, .forgiven_after = seconds(10)};

class OffendersTest : public ::testing::Test {
 protected:
  void Offend(const std::string& peer, int times) {
    for (int i = 0; i < times; ++i) offenders_.Note(peer, kLimits, now_);
  }
  bool IsBarred(const std::string& peer) const {
    return offenders_.BarredUntil(peer, kLimits, now_).has_value();
  }

  DoorTime now_{std::chrono::hours(1)};
  Offenders offenders_;
};

TEST_F(OffendersTest, WhoHasUsedUpTheAllowanceWaitsForOneToBeForgiven) {
  Offend("a", 2);
  EXPECT_FALSE(IsBarred("a"));
  Offend("a", 1);
  EXPECT_EQ(offenders_.BarredUntil("a", kLimits, now_), now_ + seconds(10));
  EXPECT_FALSE(IsBarred("b")) << "another peer's";
  now_ += milliseconds(9'999);
  EXPECT_TRUE(IsBarred("a"));
  now_ += milliseconds(1);
  EXPECT_FALSE(IsBarred("a"));
  Offend("a", 1);
  EXPECT_EQ(offenders_.BarredUntil("a", kLimits, now_), now_ + seconds(10));
}

TEST_F(OffendersTest, ManyAtOnceBarNoLonger) {
  Offend("a", 1'000);
  EXPECT_EQ(offenders_.BarredUntil("a", kLimits, now_), now_ + seconds(10));
}

TEST_F(OffendersTest, AnOffenceNowAndThenBarsNobody) {
  for (int i = 0; i < 1'000; ++i) {
    Offend("a", 1);
    ASSERT_FALSE(IsBarred("a")) << i;
    now_ += seconds(10);
  }
}

TEST_F(OffendersTest, AllIsForgivenInTheEnd) {
  Offend("a", 3);
  now_ += seconds(30);
  Offend("a", 2);
  EXPECT_FALSE(IsBarred("a"));
}

TEST_F(OffendersTest, IsSwitchedOffAndOnByLimits) {
  constexpr OffenceLimits kOff{.most = 0, .forgiven_after = seconds(10)};
  Offend("a", 3);
  EXPECT_FALSE(offenders_.BarredUntil("a", kOff, now_));
  EXPECT_TRUE(IsBarred("a"));
  for (int i = 0; i < 10; ++i) offenders_.Note("b", kOff, now_);
  EXPECT_FALSE(IsBarred("b"));
}

TEST_F(OffendersTest, PeersWithoutANameAreNobody) {
  Offend("", 10);
  EXPECT_FALSE(IsBarred(""));
  EXPECT_EQ(offenders_.size(), 0U);
}

TEST_F(OffendersTest, ForgetsThoseWhoAreForgivenAndHoldsSoManyAtMost) {
  for (size_t i = 0; i < Offenders::kMostPeers; ++i) Offend(std::to_string(i), 1);
  now_ += seconds(10);
  Offend("a", 3);
  EXPECT_EQ(offenders_.size(), 1U);
  for (size_t i = 0; i < 3 * Offenders::kMostPeers; ++i) Offend(std::to_string(i), 1);
  EXPECT_EQ(offenders_.size(), Offenders::kMostPeers);
  EXPECT_TRUE(IsBarred("a")) << "who owes most is forgotten last";
}

}  // namespace
}  // namespace lodgekv::server
