#include "server/front_door/delayed_connections.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

namespace lodgekv::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr ConnectionRateLimits kLimits{.bucket = {.most = 3, .refill = milliseconds(100)},
                                       .longest_wait = seconds(2)};
constexpr ConnectionRateLimits kOff{};
constexpr size_t kAny = 1'000;

class DelayedConnectionsTest : public ::testing::Test {
 protected:
  // A connection whose remote end the test keeps open.
  AcceptedConnection Make(const std::string& network, const std::string& name) {
    std::array<int, 2> pair{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
    others_.emplace_back(pair[1]);
    return {UniqueFd(pair[0]), name, network};
  }
  void Connect(const std::string& network, const std::string& name) {
    switch (delayed_.DecisionFor(network, kLimits, now_)) {
      case DelayedConnections::Decision::kAdmit:
        delayed_.NoteAdmitted(network, kLimits, now_);
        break;
      case DelayedConnections::Decision::kDelay: delayed_.Add(Make(network, name)); break;
      case DelayedConnections::Decision::kRefuse: ++refused_; break;
    }
  }
  void Connect(const std::string& network, int from, int to) {
    for (int i = from; i <= to; ++i) Connect(network, std::to_string(i));
  }
  // The names of those admitted now.
  std::vector<std::string> Admitted(const ConnectionRateLimits& limits = kLimits,
                                    size_t most = kAny) {
    std::vector<std::string> names;
    for (const AcceptedConnection& due : delayed_.TakeDue(limits, now_, most))
      names.push_back(due.name);
    return names;
  }

  using Names = std::vector<std::string>;

  DoorTime now_{std::chrono::hours(1)};
  DelayedConnections delayed_;
  std::vector<UniqueFd> others_;
  int refused_ = 0;
};

TEST_F(DelayedConnectionsTest, BeyondTheBurstConnectionsAreAdmittedOneByOneInOrder) {
  Connect("a", 1, 6);
  EXPECT_EQ(delayed_.size(), 3U);
  EXPECT_EQ(Admitted(), Names());
  EXPECT_EQ(delayed_.NextDue(kLimits, now_), now_ + milliseconds(100));
  now_ += milliseconds(100);
  EXPECT_EQ(delayed_.NextDue(kLimits, now_), now_);
  EXPECT_EQ(Admitted(), Names({"4"}));
  Connect("a", "7");
  now_ += milliseconds(200);
  EXPECT_EQ(Admitted(), Names({"5", "6"}));
  now_ += milliseconds(100);
  EXPECT_EQ(Admitted(), Names({"7"}));
  EXPECT_EQ(delayed_.NextDue(kLimits, now_), std::nullopt);
  EXPECT_TRUE(delayed_.empty());
}

TEST_F(DelayedConnectionsTest, NoneOvertakesADelayedOne) {
  Connect("a", 1, 4);
  now_ += milliseconds(100);
  EXPECT_EQ(delayed_.DecisionFor("a", kLimits, now_), DelayedConnections::Decision::kDelay)
      << "one is due";
  EXPECT_EQ(delayed_.DecisionFor("a", kOff, now_), DelayedConnections::Decision::kDelay)
      << "and before a reload";
}

TEST_F(DelayedConnectionsTest, APeerWithinItsRateIsNeverDelayed) {
  for (int i = 0; i < 1'000; ++i) {
    ASSERT_EQ(delayed_.DecisionFor("a", kLimits, now_), DelayedConnections::Decision::kAdmit) << i;
    delayed_.NoteAdmitted("a", kLimits, now_);
    now_ += milliseconds(100);
  }
}

TEST_F(DelayedConnectionsTest, PeersDoNotDelayEachOther) {
  Connect("a", 1, 20);
  EXPECT_EQ(delayed_.DecisionFor("b", kLimits, now_), DelayedConnections::Decision::kAdmit);
  Connect("b", 1, 4);
  EXPECT_EQ(delayed_.size(), 17U + 1U);
  now_ += milliseconds(100);
  EXPECT_EQ(Admitted().size(), 2U);
  EXPECT_EQ(delayed_.DecisionFor("", kLimits, now_), DelayedConnections::Decision::kAdmit)
      << "a Unix socket's";
}

TEST_F(DelayedConnectionsTest, RefusesWhatWouldWaitTooLong) {
  Connect("a", 1, 3 + 20);
  EXPECT_EQ(refused_, 0);
  Connect("a", 24, 30);
  EXPECT_EQ(refused_, 7);
  for (int i = 0; i < 20; ++i) {
    now_ += milliseconds(100);
    EXPECT_EQ(Admitted(), Names({std::to_string(4 + i)}));
  }
}

TEST_F(DelayedConnectionsTest, ClosedConnectionsTakeNoPlaceInTheQueue) {
  Connect("a", 1, 3 + 20);
  others_.clear();
  Connect("a", 24, 30);
  EXPECT_EQ(refused_, 0);
  EXPECT_EQ(delayed_.size(), 7U);
}

TEST_F(DelayedConnectionsTest, ClosedConnectionsTakeNothingFromTheBucket) {
  Connect("a", 1, 10);
  for (int i = 0; i < 6; ++i) {  // 4 to 9, one of them after it sent something
    if (i == 2) {
      EXPECT_EQ(send(others_.at(i).get(), "hello", 5, 0), 5);
    }
    others_.at(i).Reset();
  }
  now_ += milliseconds(100);
  EXPECT_EQ(Admitted(), Names({"10"}));
  EXPECT_TRUE(delayed_.empty());
}

TEST_F(DelayedConnectionsTest, AfterAllHaveClosedTheNextIsAdmittedAtOnce) {
  Connect("a", 1, 10);
  others_.clear();
  now_ += milliseconds(100);
  EXPECT_EQ(Admitted(), Names());
  EXPECT_EQ(delayed_.DecisionFor("a", kLimits, now_), DelayedConnections::Decision::kAdmit);
}

TEST_F(DelayedConnectionsTest, NoMoreAreTakenAtOnceThanRequested) {
  Connect("a", 1, 6);
  Connect("b", 11, 16);
  now_ += milliseconds(300);
  EXPECT_EQ(Admitted(kLimits, 4).size(), 4U);
  EXPECT_EQ(Admitted(kLimits, 4).size(), 2U);
}

TEST_F(DelayedConnectionsTest, AllAreAdmittedOnceTheRateIsSwitchedOff) {
  Connect("a", 1, 6);
  EXPECT_EQ(delayed_.NextDue(kOff, now_), now_);
  EXPECT_EQ(Admitted(kOff), Names({"4", "5", "6"}));
}

TEST_F(DelayedConnectionsTest, TheNewestOfTheLongestQueueIsEvictedForAnotherPeer) {
  Connect("a", 1, 8);
  Connect("b", 11, 14);
  const auto taken = delayed_.TakeFromLongest("c");
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->name, "8");
  EXPECT_TRUE(delayed_.TakeFromLongest("b"));
  EXPECT_FALSE(delayed_.TakeFromLongest("a")) << "it has most itself";
  EXPECT_EQ(delayed_.size(), 4U);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(delayed_.TakeFromLongest("c")) << i;
  EXPECT_FALSE(delayed_.TakeFromLongest("c"));
  EXPECT_EQ(delayed_.NextDue(kLimits, now_), std::nullopt);
}

}  // namespace
}  // namespace lodgekv::server
