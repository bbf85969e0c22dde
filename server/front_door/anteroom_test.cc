#include "server/front_door/anteroom.h"

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

constexpr EntryLimits kLimits{.bucket = {.most = 3, .refill = milliseconds(100)},
                              .longest_wait = seconds(2)};
constexpr EntryLimits kOff{};
constexpr size_t kAny = 1'000;

class AnteroomTest : public ::testing::Test {
 protected:
  // A connection whose other end stays with us.
  Newcomer Make(const std::string& network, const std::string& name) {
    std::array<int, 2> pair{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
    others_.emplace_back(pair[1]);
    return {UniqueFd(pair[0]), name, network};
  }
  void Come(const std::string& network, const std::string& name) {
    switch (anteroom_.PlaceFor(network, kLimits, now_)) {
      case Anteroom::Place::kInside: anteroom_.NoteEntry(network, kLimits, now_); break;
      case Anteroom::Place::kHere: anteroom_.Add(Make(network, name)); break;
      case Anteroom::Place::kNone: ++refused_; break;
    }
  }
  void Come(const std::string& network, int from, int to) {
    for (int i = from; i <= to; ++i) Come(network, std::to_string(i));
  }
  // The names of those who come in now.
  std::vector<std::string> LetIn(const EntryLimits& limits = kLimits, size_t most = kAny) {
    std::vector<std::string> names;
    for (const Newcomer& due : anteroom_.TakeDue(limits, now_, most)) names.push_back(due.name);
    return names;
  }

  using Names = std::vector<std::string>;

  DoorTime now_{std::chrono::hours(1)};
  Anteroom anteroom_;
  std::vector<UniqueFd> others_;
  int refused_ = 0;
};

TEST_F(AnteroomTest, BeyondTheBurstTheyComeInOneAfterTheOtherInTheirOrder) {
  Come("a", 1, 6);
  EXPECT_EQ(anteroom_.size(), 3U);
  EXPECT_EQ(LetIn(), Names());
  EXPECT_EQ(anteroom_.NextDue(kLimits, now_), now_ + milliseconds(100));
  now_ += milliseconds(100);
  EXPECT_EQ(anteroom_.NextDue(kLimits, now_), now_);
  EXPECT_EQ(LetIn(), Names({"4"}));
  Come("a", "7");
  now_ += milliseconds(200);
  EXPECT_EQ(LetIn(), Names({"5", "6"}));
  now_ += milliseconds(100);
  EXPECT_EQ(LetIn(), Names({"7"}));
  EXPECT_EQ(anteroom_.NextDue(kLimits, now_), std::nullopt);
  EXPECT_TRUE(anteroom_.empty());
}

TEST_F(AnteroomTest, NonePassesThoseWhoWait) {
  Come("a", 1, 4);
  now_ += milliseconds(100);
  EXPECT_EQ(anteroom_.PlaceFor("a", kLimits, now_), Anteroom::Place::kHere) << "one is due";
  EXPECT_EQ(anteroom_.PlaceFor("a", kOff, now_), Anteroom::Place::kHere) << "and before a reload";
}

TEST_F(AnteroomTest, WhoKeepsToTheRateNeverWaits) {
  for (int i = 0; i < 1'000; ++i) {
    ASSERT_EQ(anteroom_.PlaceFor("a", kLimits, now_), Anteroom::Place::kInside) << i;
    anteroom_.NoteEntry("a", kLimits, now_);
    now_ += milliseconds(100);
  }
}

TEST_F(AnteroomTest, PeersDoNotWaitForEachOther) {
  Come("a", 1, 20);
  EXPECT_EQ(anteroom_.PlaceFor("b", kLimits, now_), Anteroom::Place::kInside);
  Come("b", 1, 4);
  EXPECT_EQ(anteroom_.size(), 17U + 1U);
  now_ += milliseconds(100);
  EXPECT_EQ(LetIn().size(), 2U);
  EXPECT_EQ(anteroom_.PlaceFor("", kLimits, now_), Anteroom::Place::kInside) << "a Unix socket's";
}

TEST_F(AnteroomTest, RefusesWhoWouldWaitTooLong) {
  Come("a", 1, 3 + 20);
  EXPECT_EQ(refused_, 0);
  Come("a", 24, 30);
  EXPECT_EQ(refused_, 7);
  for (int i = 0; i < 20; ++i) {
    now_ += milliseconds(100);
    EXPECT_EQ(LetIn(), Names({std::to_string(4 + i)}));
  }
}

TEST_F(AnteroomTest, ThoseWhoHaveLeftFillNoRoom) {
  Come("a", 1, 3 + 20);
  others_.clear();
  Come("a", 24, 30);
  EXPECT_EQ(refused_, 0);
  EXPECT_EQ(anteroom_.size(), 7U);
}

TEST_F(AnteroomTest, ThoseWhoHaveLeftTakeNobodysTurn) {
  Come("a", 1, 10);
  for (int i = 0; i < 6; ++i) {  // 4 to 9, one of them with a word behind
    if (i == 2) {
      EXPECT_EQ(send(others_.at(i).get(), "hello", 5, 0), 5);
    }
    others_.at(i).Reset();
  }
  now_ += milliseconds(100);
  EXPECT_EQ(LetIn(), Names({"10"}));
  EXPECT_TRUE(anteroom_.empty());
}

TEST_F(AnteroomTest, WhereAllHaveLeftTheNextComesInAtOnce) {
  Come("a", 1, 10);
  others_.clear();
  now_ += milliseconds(100);
  EXPECT_EQ(LetIn(), Names());
  EXPECT_EQ(anteroom_.PlaceFor("a", kLimits, now_), Anteroom::Place::kInside);
}

TEST_F(AnteroomTest, NoMoreComeInAtOnceThanAreAskedFor) {
  Come("a", 1, 6);
  Come("b", 11, 16);
  now_ += milliseconds(300);
  EXPECT_EQ(LetIn(kLimits, 4).size(), 4U);
  EXPECT_EQ(LetIn(kLimits, 4).size(), 2U);
}

TEST_F(AnteroomTest, AllComeInOnceTheRateIsSwitchedOff) {
  Come("a", 1, 6);
  EXPECT_EQ(anteroom_.NextDue(kOff, now_), now_);
  EXPECT_EQ(LetIn(kOff), Names({"4", "5", "6"}));
}

TEST_F(AnteroomTest, TheNewestOfWhoHasMostGoesForOneOfAnother) {
  Come("a", 1, 8);
  Come("b", 11, 14);
  const auto taken = anteroom_.TakeOneTooMany("c");
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->name, "8");
  EXPECT_TRUE(anteroom_.TakeOneTooMany("b"));
  EXPECT_FALSE(anteroom_.TakeOneTooMany("a")) << "it has most itself";
  EXPECT_EQ(anteroom_.size(), 4U);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(anteroom_.TakeOneTooMany("c")) << i;
  EXPECT_FALSE(anteroom_.TakeOneTooMany("c"));
  EXPECT_EQ(anteroom_.NextDue(kLimits, now_), std::nullopt);
}

}  // namespace
}  // namespace lodgekv::server
