#include "server/front_door/peer_buckets.h"

#include <gtest/gtest.h>

#include <string>

namespace lodgekv::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr BucketLimits kLimits{.most = 3, .refill = seconds(10)};

class PeerBucketsTest : public ::testing::Test {
 protected:
  void Offend(const std::string& peer, int times) {
    for (int i = 0; i < times; ++i) buckets_.Take(peer, kLimits, now_);
  }
  bool IsBarred(const std::string& peer) const {
    return buckets_.EmptyUntil(peer, kLimits, now_).has_value();
  }

  DoorTime now_{std::chrono::hours(1)};
  PeerBuckets buckets_;
};

TEST_F(PeerBucketsTest, AnEmptyBucketHasAnEntryAgainAfterARefill) {
  Offend("a", 2);
  EXPECT_FALSE(IsBarred("a"));
  Offend("a", 1);
  EXPECT_EQ(buckets_.EmptyUntil("a", kLimits, now_), now_ + seconds(10));
  EXPECT_FALSE(IsBarred("b")) << "another peer's";
  now_ += milliseconds(9'999);
  EXPECT_TRUE(IsBarred("a"));
  now_ += milliseconds(1);
  EXPECT_FALSE(IsBarred("a"));
  Offend("a", 1);
  EXPECT_EQ(buckets_.EmptyUntil("a", kLimits, now_), now_ + seconds(10));
}

TEST_F(PeerBucketsTest, ManyAtOnceTakeNoLongerToRefill) {
  Offend("a", 1'000);
  EXPECT_EQ(buckets_.EmptyUntil("a", kLimits, now_), now_ + seconds(10));
}

TEST_F(PeerBucketsTest, ABucketThatRefillsInTimeIsNeverEmpty) {
  for (int i = 0; i < 1'000; ++i) {
    Offend("a", 1);
    ASSERT_FALSE(IsBarred("a")) << i;
    now_ += seconds(10);
  }
}

TEST_F(PeerBucketsTest, ABucketRefillsCompletely) {
  Offend("a", 3);
  now_ += seconds(30);
  Offend("a", 2);
  EXPECT_FALSE(IsBarred("a"));
}

TEST_F(PeerBucketsTest, IsSwitchedOffAndOnByLimits) {
  constexpr BucketLimits kOff{.most = 0, .refill = seconds(10)};
  Offend("a", 3);
  EXPECT_FALSE(buckets_.EmptyUntil("a", kOff, now_));
  EXPECT_TRUE(IsBarred("a"));
  for (int i = 0; i < 10; ++i) buckets_.Take("b", kOff, now_);
  EXPECT_FALSE(IsBarred("b"));
}

TEST_F(PeerBucketsTest, PeersWithoutANameHaveNoBucket) {
  Offend("", 10);
  EXPECT_FALSE(IsBarred(""));
  EXPECT_EQ(buckets_.size(), 0U);
}

TEST_F(PeerBucketsTest, RemovesFullBucketsAndKeepsABoundedNumber) {
  for (size_t i = 0; i < PeerBuckets::kMaxPeers; ++i) Offend(std::to_string(i), 1);
  now_ += seconds(10);
  Offend("a", 3);
  EXPECT_EQ(buckets_.size(), 1U);
  for (size_t i = 0; i < 3 * PeerBuckets::kMaxPeers; ++i) Offend(std::to_string(i), 1);
  EXPECT_EQ(buckets_.size(), PeerBuckets::kMaxPeers);
  EXPECT_TRUE(IsBarred("a")) << "who owes most is forgotten last";
}

}  // namespace
}  // namespace lodgekv::server
