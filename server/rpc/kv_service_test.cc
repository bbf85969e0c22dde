// Single calls over a real connection: values, conditions, versions, TTL, cost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "server/base/log.h"
#include "server/testing/test_daemon.h"

namespace lodgekv::server::testing {
namespace {

using ::testing::HasSubstr;

v1::DeleteRequest MakeDelete(const std::string& key,
                             v1::Condition condition = v1::CONDITION_UNSPECIFIED,
                             uint64_t if_version = 0) {
  v1::DeleteRequest request;
  request.set_key(key);
  request.set_condition(condition);
  request.set_if_version(if_version);
  return request;
}

TEST(KvServiceTest, PutsGetsAndDeletes) {
  TestDaemon daemon;
  EXPECT_EQ(daemon.ValueOf("k"), "(none)");
  ASSERT_TRUE(daemon.Put("k", "v1").ok());
  EXPECT_EQ(daemon.ValueOf("k"), "v1");
  ASSERT_TRUE(daemon.Put("k", "").ok());
  EXPECT_EQ(daemon.ValueOf("k"), "");
  v1::DeleteResponse deleted;
  ASSERT_TRUE(daemon.Delete(MakeDelete("k"), &deleted).ok());
  EXPECT_TRUE(deleted.found());
  ASSERT_TRUE(daemon.Delete(MakeDelete("k"), &deleted).ok());
  EXPECT_FALSE(deleted.found());
  EXPECT_EQ(daemon.ValueOf("k"), "(none)");
}

TEST(KvServiceTest, KeysAndValuesMayHoldAnyBytes) {
  TestDaemon daemon;
  const std::string key("\0\xff k\n", 5);
  std::string value(kMiB, '\0');
  for (size_t i = 0; i < value.size(); ++i) value[i] = static_cast<char>(i * 2'654'435'761U >> 13);
  ASSERT_TRUE(daemon.Put(key, value).ok());
  EXPECT_TRUE(daemon.ValueOf(key) == value);
  EXPECT_EQ(daemon.ValueOf(std::string("\0\xff k", 4)), "(none)");
}

TEST(KvServiceTest, VersionsGrow) {
  TestDaemon daemon;
  v1::PutResponse first;
  v1::PutResponse second;
  ASSERT_TRUE(daemon.Put(MakePut("k", "1"), &first).ok());
  ASSERT_TRUE(daemon.Put(MakePut("k", "2"), &second).ok());
  EXPECT_GT(first.version(), 0);
  EXPECT_GT(second.version(), first.version());
  v1::GetResponse response;
  ASSERT_TRUE(daemon.Get("k", &response).ok());
  EXPECT_EQ(response.version(), second.version());
  EXPECT_FALSE(response.has_expire_time());
}

TEST(KvServiceTest, IfAbsentWritesOnlyANewKey) {
  TestDaemon daemon;
  ASSERT_TRUE(daemon.Put(MakePut("k", "1", v1::CONDITION_IF_ABSENT)).ok());
  const grpc::Status status = daemon.Put(MakePut("k", "2", v1::CONDITION_IF_ABSENT));
  EXPECT_EQ(CodeAndReason(status), "FAILED_PRECONDITION CONDITION_FAILED");
  EXPECT_EQ(DetailsOf(status).info.metadata().at("found"), "true");
  EXPECT_EQ(DetailsOf(status).precondition.violations(0).type(), "IF_ABSENT");
  EXPECT_EQ(daemon.ValueOf("k"), "1");
}

TEST(KvServiceTest, IfPresentWritesOnlyAnExistingKey) {
  TestDaemon daemon;
  EXPECT_EQ(CodeAndReason(daemon.Put(MakePut("k", "1", v1::CONDITION_IF_PRESENT))),
            "FAILED_PRECONDITION CONDITION_FAILED");
  EXPECT_EQ(CodeAndReason(daemon.Delete(MakeDelete("k", v1::CONDITION_IF_PRESENT))),
            "FAILED_PRECONDITION CONDITION_FAILED");
  EXPECT_EQ(daemon.ValueOf("k"), "(none)");
  ASSERT_TRUE(daemon.Put("k", "1").ok());
  EXPECT_TRUE(daemon.Put(MakePut("k", "2", v1::CONDITION_IF_PRESENT)).ok());
  EXPECT_EQ(daemon.ValueOf("k"), "2");
  EXPECT_TRUE(daemon.Delete(MakeDelete("k", v1::CONDITION_IF_PRESENT)).ok());
  EXPECT_EQ(daemon.ValueOf("k"), "(none)");
}

TEST(KvServiceTest, IfVersionReportsTheCurrentVersion) {
  TestDaemon daemon;
  v1::PutResponse first;
  ASSERT_TRUE(daemon.Put(MakePut("k", "1"), &first).ok());
  v1::PutResponse second;
  ASSERT_TRUE(
      daemon.Put(MakePut("k", "2", v1::CONDITION_IF_VERSION, first.version()), &second).ok());
  const grpc::Status status =
      daemon.Put(MakePut("k", "3", v1::CONDITION_IF_VERSION, first.version()));
  EXPECT_EQ(CodeAndReason(status), "FAILED_PRECONDITION CONDITION_FAILED");
  EXPECT_EQ(DetailsOf(status).info.metadata().at("version"), std::to_string(second.version()));
  EXPECT_EQ(daemon.ValueOf("k"), "2");
  EXPECT_EQ(
      CodeAndReason(daemon.Delete(MakeDelete("k", v1::CONDITION_IF_VERSION, first.version()))),
      "FAILED_PRECONDITION CONDITION_FAILED");
  EXPECT_TRUE(daemon.Delete(MakeDelete("k", v1::CONDITION_IF_VERSION, second.version())).ok());
  const grpc::Status gone =
      daemon.Put(MakePut("k", "4", v1::CONDITION_IF_VERSION, second.version()));
  EXPECT_EQ(DetailsOf(gone).info.metadata().at("found"), "false");
}

TEST(KvServiceTest, AValueExpiresWithItsTtl) {
  TestDaemon daemon;
  v1::PutRequest request = MakePut("k", "v");
  request.mutable_ttl()->set_seconds(10);
  const uint64_t now = daemon.clock().NowUnixMs();
  ASSERT_TRUE(daemon.Put(request).ok());
  v1::GetResponse response;
  ASSERT_TRUE(daemon.Get("k", &response).ok());
  EXPECT_EQ(response.expire_time().seconds(), static_cast<int64_t>(now / 1000 + 10));
  daemon.clock().Advance(9'999);
  EXPECT_EQ(daemon.ValueOf("k"), "v");
  daemon.clock().Advance(1);
  EXPECT_EQ(daemon.ValueOf("k"), "(none)");
  EXPECT_TRUE(daemon.Put(MakePut("k", "again", v1::CONDITION_IF_ABSENT)).ok());
  daemon.clock().Advance(1'000'000);
  EXPECT_EQ(daemon.ValueOf("k"), "again");
}

TEST(KvServiceTest, AnExpiredValueStaysExpiredWhenTheClockGoesBack) {
  TestDaemon daemon;
  v1::PutRequest request = MakePut("k", "v");
  request.mutable_ttl()->set_seconds(10);
  ASSERT_TRUE(daemon.Put(request).ok());
  daemon.clock().Advance(10'000);
  EXPECT_EQ(daemon.ValueOf("k"), "(none)");
  daemon.clock().SetBack(5'000);
  EXPECT_EQ(daemon.ValueOf("k"), "(none)");
  EXPECT_TRUE(daemon.Put(MakePut("k", "again", v1::CONDITION_IF_ABSENT)).ok());
  EXPECT_EQ(daemon.ValueOf("k"), "again");
}

TEST(KvServiceTest, CostIsReturnedOnRequest) {
  TestDaemon daemon;
  for (const bool want : {true, false}) {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::PutRequest request = MakePut("k", "v");
    request.set_want_cost(want);
    v1::PutResponse response;
    ASSERT_TRUE(daemon.kv().Put(&context, request, &response).ok());
    const auto& trailers = context.GetServerTrailingMetadata();
    const auto cost = trailers.find("lodgekv-cost-bin");
    ASSERT_EQ(cost != trailers.end(), want);
    if (!want) continue;
    v1::Cost message;
    ASSERT_TRUE(message.ParseFromArray(cost->second.data(), static_cast<int>(cost->second.size())));
    EXPECT_EQ(message.group_operations(), 1);
    EXPECT_TRUE(message.has_share());
    EXPECT_EQ(message.share().bytes_stored(), message.bytes_stored());
  }
}

// Writes are queued for the poller, or for the threads that wait for the medium.
class QueuedWritesTest : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(LongFences, QueuedWritesTest, ::testing::Bool());

TEST_P(QueuedWritesTest, ACallWhoseDeadlinePassedInTheQueueIsNotApplied) {
  auto faults = std::make_shared<Faults>();
  faults->long_fences = GetParam();
  std::atomic<bool> hold{true};
  faults->on_write = [&](size_t) {
    while (hold) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  Config config = TestConfig();
  config.threads = 1;
  config.write_threads = 1;
  TestDaemon daemon(config, HooksOf(faults));
  // The first occupies the only thread; the second is queued until its deadline has passed.
  std::thread first([&] { EXPECT_TRUE(daemon.Put("first", "v").ok()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  grpc::ClientContext context;
  SetDeadline(context, std::chrono::milliseconds(100));
  v1::PutResponse response;
  EXPECT_EQ(daemon.kv().Put(&context, MakePut("late", "v"), &response).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  // The server's deadline begins when it receives the call, a little after the client's.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  hold = false;
  first.join();
  EXPECT_EQ(daemon.ValueOf("late"), "(none)");
}

TEST_P(QueuedWritesTest, QueuedSingleWritesAreOneGroup) {
  auto faults = std::make_shared<Faults>();
  faults->long_fences = GetParam();
  std::atomic<bool> hold{true};
  std::atomic<size_t> largest{0};
  faults->on_write = [&](size_t operations) {
    largest = std::max(largest.load(), operations);
    while (hold) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  Config config = TestConfig();
  config.threads = 1;
  config.write_threads = 1;
  config.group_operations = 16;
  TestDaemon daemon(config, HooksOf(faults));
  std::vector<std::thread> clients;
  clients.reserve(40);
  for (int i = 0; i < 40; ++i) {
    clients.emplace_back([&daemon, i] {
      EXPECT_TRUE(daemon.Put("key" + std::to_string(i), std::to_string(i)).ok());
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  hold = false;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(largest, 16);
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(daemon.ValueOf("key" + std::to_string(i)), std::to_string(i));
  }
}

TEST(KvServiceTest, ASlowRequestIsLoggedWithoutItsKey) {
  auto faults = std::make_shared<Faults>();
  faults->on_write = [](size_t) { std::this_thread::sleep_for(std::chrono::milliseconds(30)); };
  Config config = TestConfig();
  config.slow_request_ms = 20;
  TestDaemon daemon(config, HooksOf(faults));
  ::testing::internal::CaptureStderr();
  ASSERT_TRUE(daemon.Put("secretkey", "secretvalue").ok());
  ASSERT_EQ(daemon.ValueOf("other"), "(none)");
  FlushLog();
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("slow request rpc=Put code=OK latency_us="));
  EXPECT_THAT(log, HasSubstr("held_bytes=24 "));
  EXPECT_THAT(log, HasSubstr(" lines_flushed=0 fences=0 media_writes_256b=0 group_operations=1 "
                             "share_lines_flushed=0 share_fences=0 share_media_writes_256b=0"));
  EXPECT_THAT(log, ::testing::Not(HasSubstr("secret")));
  EXPECT_THAT(log, ::testing::Not(HasSubstr("rpc=Get")));
}

TEST(KvServiceTest, EachCallOfAGroupHasItsOwnAnswer) {
  TestDaemon daemon;
  std::vector<std::thread> clients;
  std::atomic<int> won{0};
  std::atomic<int> lost{0};
  clients.reserve(16);
  for (int i = 0; i < 16; ++i) {
    clients.emplace_back([&] {
      for (int key = 0; key < 20; ++key) {
        const grpc::Status status =
            daemon.Put(MakePut("key" + std::to_string(key), "v", v1::CONDITION_IF_ABSENT));
        if (status.ok()) ++won;
        if (status.error_code() == grpc::StatusCode::FAILED_PRECONDITION) ++lost;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(won, 20);
  EXPECT_EQ(lost, 16 * 20 - 20);
}

TEST(KvServiceTest, Fixed64NamesWhatItDoesNotSupport) {
  Config config = TestConfig();
  config.key_format = "fixed64";
  TestDaemon daemon(config);
  v1::PutResponse response;
  ASSERT_TRUE(daemon.Put(MakePut("12345678", "abcdefgh"), &response).ok());
  EXPECT_EQ(response.version(), 0);
  EXPECT_EQ(daemon.ValueOf("12345678"), "abcdefgh");
  const grpc::Status status = daemon.Put("short", "abcdefgh");
  EXPECT_EQ(CodeAndReason(status), "INVALID_ARGUMENT NOT_IN_KEY_FORMAT");
  EXPECT_THAT(status.error_message(), HasSubstr("fixed64"));
}

TEST(KvServiceTest, ServesOverAUnixSocket) {
  Config config = TestConfig();
  const std::string path =
      ::testing::TempDir() + "lodgekv_test_" + std::to_string(getpid()) + ".sock";
  config.listen = "unix:" + path;
  TestDaemon daemon(config);
  ASSERT_TRUE(daemon.Put("k", "v").ok());
  EXPECT_EQ(daemon.ValueOf("k"), "v");
}

}  // namespace
}  // namespace lodgekv::server::testing
