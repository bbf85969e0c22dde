#include "server/rpc/admission.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/base/connection_table.h"

namespace lodgekv::server {
namespace {

constexpr auto kLong = std::chrono::seconds(2);

class AdmissionTest : public ::testing::Test {
 protected:
  // 1,000 operations, of which a connection may have 500 and a peer 750, and as many KiB; a reserve
  // of 125.
  static Limits MakeLimits() {
    Limits limits;
    limits.max_inflight_operations = 1'000;
    limits.max_inflight_size = 1'000 * kKiB;
    limits.connection_share = 50;
    limits.peer_share = 75;
    return limits;
  }

  std::shared_ptr<Connection> Connect(int machine) {
    return table_.Add("ipv4:192.0.2." + std::to_string(machine) + ":" +
                      std::to_string(next_port_++));
  }

  // The name of the limit that refused, or "".
  std::string Take(Connection& connection, uint64_t operations, uint64_t bytes = 0) {
    held_.emplace_back();
    const Admission::Verdict verdict = admission_.Take(connection, operations, bytes, held_.back());
    if (verdict.admitted) return "";
    EXPECT_EQ(held_.back().operations + held_.back().bytes, 0U) << "takes nothing when refused";
    return std::string(kAdmissionLimitNames[static_cast<size_t>(verdict.limit)]) +
           (verdict.of_bytes ? " bytes " : " ") + std::to_string(verdict.value);
  }

  ConnectionTable table_;
  Admission admission_{MakeLimits()};
  std::vector<Admission::Held> held_;
  int next_port_ = 1;
};

TEST_F(AdmissionTest, AConnectionIsLimitedToItsShare) {
  const auto one = Connect(1);
  EXPECT_EQ(Take(*one, 500), "");
  EXPECT_EQ(Take(*one, 1), "connection_share 500");
  EXPECT_EQ(one->refusals, 1U);
  EXPECT_EQ(admission_.operations(), 500U);
  EXPECT_FALSE(admission_.UnderPressure(Admission::Clock::now())) << "it hurts itself alone";
}

// 125 KiB, of which a connection may have half.
TEST_F(AdmissionTest, WhatWaitsHasALimitOfItsOwn) {
  const auto one = Connect(1);
  std::vector<Admission::Held> held(4);
  EXPECT_TRUE(admission_.Wait(*one, 40 * kKiB, held[0]));
  EXPECT_FALSE(admission_.Wait(*one, 40 * kKiB, held[1])) << "the connection's share";
  const auto two = Connect(2);
  const auto three = Connect(3);
  EXPECT_TRUE(admission_.Wait(*two, 50 * kKiB, held[1]));
  EXPECT_FALSE(admission_.Wait(*three, 50 * kKiB, held[2])) << "the server's limit";
  EXPECT_TRUE(admission_.Wait(*three, 35 * kKiB, held[2]));
  EXPECT_EQ(admission_.waiting_bytes(), 125 * kKiB);
  EXPECT_EQ(admission_.bytes(), 0U) << "it is not in flight";
  admission_.EndWait(*one, held[0]);
  admission_.EndWait(*one, held[0]);
  admission_.Release(*two, held[1]);
  admission_.Release(*three, held[2]);
  EXPECT_EQ(admission_.waiting_bytes(), 0U);
  EXPECT_TRUE(admission_.Wait(*one, 500 * kKiB, held[3])) << "alone, whatever its size";
  EXPECT_FALSE(admission_.Wait(*two, 1, held[0]));
  admission_.Release(*one, held[3]);
}

TEST_F(AdmissionTest, APeerIsLimitedToItsShare) {
  const auto one = Connect(1);
  const auto two = Connect(1);
  EXPECT_EQ(Take(*one, 500), "");
  EXPECT_EQ(Take(*two, 250), "");
  EXPECT_EQ(Take(*two, 1), "peer_share 750");
  EXPECT_EQ(two->refusals, 1U);
  EXPECT_EQ(Take(*Connect(2), 200), "") << "another machine";
}

TEST_F(AdmissionTest, BytesAreLimitedLikeOperations) {
  const auto one = Connect(1);
  EXPECT_EQ(Take(*one, 1, 500 * kKiB), "");
  EXPECT_EQ(Take(*one, 1, 1), "connection_share bytes 512000");
  EXPECT_EQ(admission_.operations(), 1U);
  EXPECT_EQ(admission_.bytes(), 500 * kKiB);
}

TEST_F(AdmissionTest, ALightConnectionIsAdmittedWhenOthersHaveUsedUpTheLimit) {
  const auto one = Connect(1);
  const auto two = Connect(1);
  const auto three = Connect(2);
  ASSERT_EQ(Take(*one, 500), "");
  ASSERT_EQ(Take(*two, 250), "");
  ASSERT_EQ(Take(*three, 250), "");
  EXPECT_EQ(Take(*three, 1), "max_inflight_operations 1000");
  EXPECT_EQ(three->refusals, 0U) << "others hold it all";
  const auto little = Connect(1);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(Take(*little, 1, 64 * kKiB / 16), "") << i;
  EXPECT_EQ(admission_.reserve_operations(), 16U);
  EXPECT_EQ(Take(*little, 1), "peer_share 750") << "it holds much by now";
  EXPECT_TRUE(admission_.UnderPressure(Admission::Clock::now()));
  EXPECT_FALSE(admission_.UnderPressure(Admission::Clock::now() + kLong));
}

TEST_F(AdmissionTest, TheReserveIsLimited) {
  const auto one = Connect(1);
  const auto two = Connect(2);
  ASSERT_EQ(Take(*one, 500), "");
  ASSERT_EQ(Take(*two, 500), "");
  uint64_t admitted = 0;
  for (int i = 0; i < 100; ++i) admitted += Take(*Connect(3 + i), 10).empty() ? 10 : 0;
  EXPECT_EQ(admitted, 120U);
  EXPECT_EQ(admission_.operations(), 1'120U);
}

TEST_F(AdmissionTest, ACallThatIsAloneMayExceedTheLimit) {
  const auto one = Connect(1);
  EXPECT_EQ(Take(*one, 5'000, 5'000 * kKiB), "");
  EXPECT_EQ(Take(*Connect(2), 100), "max_inflight_operations 1000") << "not so for the next";
  // The call's own answer does not count against it.
  EXPECT_TRUE(admission_.Take(*one, 0, kMiB, held_.front()).admitted);
}

TEST_F(AdmissionTest, EverythingIsReleased) {
  std::vector<std::shared_ptr<Connection>> connections;
  for (int i = 0; i < 40; ++i) connections.push_back(Connect(i % 4));
  std::vector<std::pair<Connection*, Admission::Held>> calls;
  for (uint64_t i = 0; i < 4'000; ++i) {
    Connection& connection = *connections[i % connections.size()];
    Admission::Held held;
    if (!admission_.Take(connection, 1 + i % 7, (i * 977) % 20'000, held).admitted) continue;
    admission_.Take(connection, 0, (i * 331) % 10'000, held);
    if (i % 3 == 0) admission_.ReleaseAbove(connection, held, i % 5'000);
    calls.emplace_back(&connection, held);
  }
  EXPECT_GT(admission_.reserve_operations(), 0U) << "both pots were used";
  for (auto& [connection, held] : calls) admission_.Release(*connection, held);
  EXPECT_EQ(admission_.operations() + admission_.bytes(), 0U);
  EXPECT_EQ(admission_.reserve_operations() + admission_.reserve_bytes(), 0U);
  for (const auto& connection : connections) {
    EXPECT_EQ(connection->in_flight.operations + connection->in_flight.bytes, 0U);
    EXPECT_EQ(connection->peer->in_flight.operations + connection->peer->in_flight.bytes, 0U);
  }
}

TEST_F(AdmissionTest, ManyThreadsTakeNoMoreThanTheLimit) {
  const auto one = Connect(1);
  const auto two = Connect(2);
  const auto three = Connect(3);
  std::vector<std::thread> threads;
  for (Connection* connection : {one.get(), two.get(), three.get(), one.get()}) {
    threads.emplace_back([this, connection] {
      for (int i = 0; i < 50'000; ++i) {
        Admission::Held held;
        if (!admission_.Take(*connection, 17 + static_cast<uint64_t>(i % 90), 100, held).admitted) {
          continue;
        }
        EXPECT_LE(connection->in_flight.operations.load(), 500U + 4 * 107U);
        admission_.Release(*connection, held);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(admission_.operations() + admission_.bytes(), 0U);
}

}  // namespace
}  // namespace lodgekv::server
