// A server that loses its pool while it serves: what clients, operators and probes see.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "server/testing/test_daemon.h"

namespace lodgekv::server::testing {
namespace {

using ::testing::HasSubstr;

// A daemon whose pool is lost when the test says so.
class PoolGoneTest : public ::testing::Test {
 protected:
  static Config WithAllPorts() {
    Config config = TestConfig();
    config.health_listen = "127.0.0.1:0";
    config.metrics_listen = "127.0.0.1:0";
    return config;
  }

  DaemonHooks Hooks() {
    DaemonHooks hooks;
    hooks.open_store = [this](const StoreOptions& options) {
      lose_pool_ = options.on_pool_gone;
      if (lost_while_opening_) lose_pool_("/the/pool is gone");
      return OpenFakeStore(options, faults_);
    };
    return hooks;
  }

  bool lost_while_opening_ = false;
  std::shared_ptr<Faults> faults_ = std::make_shared<Faults>();
  std::function<void(const std::string&)> lose_pool_;
};

TEST_F(PoolGoneTest, EveryCallIsRefusedAndHealthSaysSo) {
  TestDaemon daemon(WithAllPorts(), Hooks());
  ASSERT_TRUE(daemon.Put("k", "v").ok());
  EXPECT_THAT(Scrape(daemon.daemon().metrics_address()), HasSubstr("lodgekv_pool_gone 0"));
  lose_pool_("/the/pool is gone");
  EXPECT_EQ(CodeAndReason(daemon.Put("k", "w")), "UNAVAILABLE POOL_GONE");
  EXPECT_EQ(daemon.ValueOf("k"), "UNAVAILABLE POOL_GONE");
  EXPECT_EQ(CodeAndReason(daemon.Delete({})), "UNAVAILABLE POOL_GONE");
  EXPECT_EQ(CodeAndReason(daemon.BatchWrite({})), "UNAVAILABLE POOL_GONE");
  v1::BatchGetResponse got;
  EXPECT_EQ(CodeAndReason(daemon.BatchGet({}, &got)), "UNAVAILABLE POOL_GONE");
  std::vector<v1::ScanResponse> pages;
  EXPECT_EQ(CodeAndReason(daemon.Scan({}, &pages)), "UNAVAILABLE POOL_GONE");
  const auto health =
      grpc::CreateChannel(daemon.daemon().health_address(), grpc::InsecureChannelCredentials());
  for (const auto& channel : {daemon.data_channel(), daemon.admin_channel(), health}) {
    EXPECT_EQ(HealthOf(channel), "NOT_SERVING");
    EXPECT_EQ(HealthOf(channel, "lodgekv.v1.KvService"), "NOT_SERVING");
  }
  EXPECT_THAT(Scrape(daemon.daemon().metrics_address()), HasSubstr("lodgekv_pool_gone 1"));
}

TEST_F(PoolGoneTest, OperatorsCallsAreRefusedToo) {
  TestDaemon daemon(TestConfig(), Hooks());
  lose_pool_("/the/pool is gone");
  {
    grpc::ClientContext context;
    v1::StatusResponse status;
    ASSERT_TRUE(daemon.admin().Status(&context, {}, &status).ok());
    EXPECT_EQ(status.state(), v1::SERVER_STATE_POOL_GONE);
  }
  {
    grpc::ClientContext context;
    v1::StatsResponse stats;
    EXPECT_EQ(CodeAndReason(daemon.admin().Stats(&context, {}, &stats)), "UNAVAILABLE POOL_GONE");
  }
  grpc::ClientContext context;
  v1::CheckResponse check;
  EXPECT_EQ(CodeAndReason(daemon.admin().Check(&context, {}, &check)), "UNAVAILABLE POOL_GONE");
}

// A write that the engine is working on when the pool is lost is not acknowledged.
TEST_F(PoolGoneTest, WhatIsInFlightIsNotAcknowledged) {
  faults_->on_write = [this](size_t) { lose_pool_("/the/pool is gone"); };
  {
    TestDaemon daemon(TestConfig(), Hooks());
    EXPECT_EQ(CodeAndReason(daemon.Put("k", "v")), "UNAVAILABLE POOL_GONE");
  }
  TestDaemon daemon(TestConfig(), Hooks());
  v1::BatchWriteRequest batch;
  batch.add_operations()->set_key("k");
  batch.mutable_operations(0)->set_kind(v1::OPERATION_KIND_PUT);
  EXPECT_EQ(CodeAndReason(daemon.BatchWrite(batch)), "UNAVAILABLE POOL_GONE");
}

TEST_F(PoolGoneTest, ALossBeforeServingIsReportedFromTheStart) {
  lost_while_opening_ = true;
  TestDaemon daemon(TestConfig(), Hooks());
  EXPECT_EQ(HealthOf(daemon.data_channel()), "NOT_SERVING");
  EXPECT_EQ(CodeAndReason(daemon.Put("k", "v")), "UNAVAILABLE POOL_GONE");
}

}  // namespace
}  // namespace lodgekv::server::testing
