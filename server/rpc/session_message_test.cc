#include "server/rpc/session_message.h"

#include <gtest/gtest.h>

#include <string>

#include "lodgekv/v1/kv.pb.h"
#include "server/config/config.h"

namespace lodgekv::server {
namespace {

constexpr uint64_t kLittle = 16 * kKiB;

class SessionMessageTest : public ::testing::Test {
 protected:
  void Receive(const v1::SessionRequest& request) {
    const grpc::Slice wire(request.SerializeAsString());
    message_.from_wire() = grpc::ByteBuffer(&wire, 1);
    message_.Parse({.limits = limits_, .pool = {}, .now_unix_ms = 1}, connection_);
  }

  const Limits limits_ = DefaultConfig().RequestLimits();
  Connection connection_{"ipv4:192.0.2.1:1", std::make_shared<Peer>("192.0.2.1")};
  SessionMessage message_;
};

v1::SessionRequest MakeRequest(const std::string& key, size_t value_bytes) {
  v1::SessionRequest request;
  request.set_id(7);
  request.set_atomic(true);
  request.set_want_cost(true);
  v1::Operation& put = *request.add_operations();
  put.set_kind(v1::OPERATION_KIND_PUT);
  put.set_key(key);
  put.set_value(std::string(value_bytes, 'v'));
  return request;
}

TEST_F(SessionMessageTest, ARefusedOneKeepsNoRequest) {
  Receive(MakeRequest("", kMiB));
  ASSERT_TRUE(message_.error());
  EXPECT_LT(message_.HeldBytes(), kLittle);
  EXPECT_GT(message_.request_bytes(), kMiB) << "the front door counts what it was";
  EXPECT_EQ(message_.id(), 7);
  EXPECT_TRUE(message_.want_cost());
}

TEST_F(SessionMessageTest, AnAnsweredOneKeepsNeitherRequestNorValues) {
  Receive(MakeRequest("k", kMiB));
  ASSERT_FALSE(message_.error());
  message_.results()[0].result.value = std::string(kMiB, 'v');
  ASSERT_GT(message_.HeldBytes(), 2 * kMiB);
  message_.KeepAnswerOnly();
  EXPECT_LT(message_.HeldBytes(), kLittle);
  EXPECT_EQ(message_.operations(), 1);
}

}  // namespace
}  // namespace lodgekv::server
