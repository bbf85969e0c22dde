// What the server refuses because of its load, the pool, the medium or its own state.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "server/testing/gate.h"
#include "server/testing/test_session.h"

namespace lodgekv::server::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Waits until `bytes` or more are held for answers.
bool AwaitBytes(TestDaemon& daemon, uint64_t bytes) {
  return Await([&] { return daemon.daemon().state().admission().bytes() >= bytes; });
}

void PutLargeValues(TestDaemon& daemon, int count) {
  for (int i = 0; i < count; ++i) {
    ASSERT_TRUE(daemon.Put("key" + std::to_string(i), std::string(kMiB, 'v')).ok());
  }
  ASSERT_TRUE(AwaitInFlight(daemon, 0));
}

TEST(KvRefusalTest, EachLimitOfARequestIsNamed) {
  Config config = TestConfig();
  config.max_key_size = 16;
  config.max_value_size = 32;
  TestDaemon daemon(config);
  EXPECT_TRUE(daemon.Put(std::string(16, 'k'), std::string(32, 'v')).ok());
  const grpc::Status key = daemon.Put(std::string(17, 'k'), "v");
  EXPECT_EQ(CodeAndReason(key), "INVALID_ARGUMENT KEY_TOO_LONG");
  EXPECT_THAT(key.error_message(), AllOf(HasSubstr("17 bytes"), HasSubstr("max_key_size, 16")));
  const grpc::Status value = daemon.Put("k", std::string(33, 'v'));
  EXPECT_EQ(CodeAndReason(value), "INVALID_ARGUMENT VALUE_TOO_LARGE");
  EXPECT_THAT(value.error_message(), HasSubstr("max_value_size, 32"));
  EXPECT_EQ(CodeAndReason(daemon.Put("", "v")), "INVALID_ARGUMENT KEY_EMPTY");
  EXPECT_EQ(daemon.ValueOf(""), "INVALID_ARGUMENT KEY_EMPTY");
  v1::DeleteRequest request;
  EXPECT_EQ(CodeAndReason(daemon.Delete(request)), "INVALID_ARGUMENT KEY_EMPTY");
}

TEST(KvRefusalTest, AMessageBeyondAllLimitsIsRefusedByGrpc) {
  TestDaemon daemon;
  const grpc::Status status = daemon.Put("k", std::string(8 * kMiB, 'v'));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(daemon.Put("k", "v").ok());
}

TEST(KvRefusalTest, TooManyOperationsInFlightAreRefused) {
  auto faults = std::make_shared<Faults>();
  faults->long_fences = true;
  std::atomic<bool> hold{true};
  faults->on_write = [&](size_t) {
    while (hold) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  Config config = TestConfig();
  config.max_inflight_operations = 1;
  config.connection_share = 100;
  TestDaemon daemon(config, HooksOf(faults));
  std::thread writer([&] { EXPECT_TRUE(daemon.Put("k", "v").ok()); });
  EXPECT_TRUE(AwaitInFlight(daemon, 1));
  v1::GetResponse response;
  const grpc::Status status = daemon.Get("k", &response);
  EXPECT_EQ(CodeAndReason(status), "RESOURCE_EXHAUSTED TOO_MANY_OPERATIONS");
  EXPECT_THAT(status.error_message(), HasSubstr("max_inflight_operations is 1"));
  EXPECT_TRUE(DetailsOf(status).has_retry);
  EXPECT_EQ(DetailsOf(status).quota.violations(0).subject(), "max_inflight_operations");
  hold = false;
  writer.join();
  EXPECT_TRUE(AwaitInFlight(daemon, 0));
  EXPECT_EQ(daemon.ValueOf("k"), "v");
}

TEST(KvRefusalTest, TooManyBytesInFlightAreRefused) {
  auto faults = std::make_shared<Faults>();
  faults->long_fences = true;
  std::atomic<bool> hold{true};
  faults->on_write = [&](size_t) {
    while (hold) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  Config config = TestConfig();
  config.max_value_size = 512 * kKiB;
  config.max_batch_size = kMiB;
  config.max_inflight_size = kMiB;
  config.connection_share = 100;
  TestDaemon daemon(config, HooksOf(faults));
  std::thread writer([&] {
    v1::BatchWriteRequest request;
    for (const char* key : {"a", "b"}) {
      v1::Operation* operation = request.add_operations();
      operation->set_kind(v1::OPERATION_KIND_PUT);
      operation->set_key(key);
      operation->set_value(std::string(512 * kKiB - 64, 'v'));
    }
    EXPECT_TRUE(daemon.BatchWrite(request).ok());
  });
  EXPECT_TRUE(AwaitInFlight(daemon, 2));
  EXPECT_EQ(daemon.ValueOf("short"), "(none)");
  v1::GetResponse response;
  const grpc::Status status = daemon.Get(std::string(200, 'k'), &response);
  EXPECT_EQ(CodeAndReason(status), "RESOURCE_EXHAUSTED TOO_MANY_BYTES");
  EXPECT_THAT(status.error_message(), HasSubstr("max_inflight_size is 1048576"));
  hold = false;
  writer.join();
  EXPECT_TRUE(AwaitInFlight(daemon, 0));
  EXPECT_EQ(daemon.daemon().state().admission().bytes(), 0);
}

// A short request that can never succeed is refused for its content, whatever is in flight.
TEST(KvRefusalTest, AnInvalidRequestIsRefusedAsInvalidEvenUnderLoad) {
  Config config = TestConfig();
  config.max_inflight_operations = 1;
  TestDaemon daemon(config);
  PutLargeValues(daemon, 16);
  grpc::ClientContext context;
  const auto unread = daemon.kv().Scan(&context, {});
  EXPECT_TRUE(AwaitBytes(daemon, kMiB));
  EXPECT_EQ(CodeAndReason(daemon.Put("k", "v")), "RESOURCE_EXHAUSTED TOO_MANY_OPERATIONS");
  EXPECT_EQ(CodeAndReason(daemon.Put("", "v")), "INVALID_ARGUMENT KEY_EMPTY");
  EXPECT_EQ(daemon.ValueOf(""), "INVALID_ARGUMENT KEY_EMPTY");
  EXPECT_EQ(CodeAndReason(daemon.Delete({})), "INVALID_ARGUMENT KEY_EMPTY");
  v1::BatchWriteRequest writes;
  v1::BatchGetRequest reads;
  for (int i = 0; i < 8'193; ++i) {
    writes.add_operations()->set_key("k");
    reads.add_keys("k");
  }
  const grpc::Status status = daemon.BatchWrite(writes);
  EXPECT_EQ(CodeAndReason(status), "INVALID_ARGUMENT BATCH_TOO_LONG");
  EXPECT_FALSE(DetailsOf(status).has_retry);
  v1::BatchGetResponse response;
  EXPECT_EQ(CodeAndReason(daemon.BatchGet(reads, &response)), "INVALID_ARGUMENT BATCH_TOO_LONG");
  v1::ScanRequest scan;
  scan.set_start(std::string(70'000, 'k'));
  std::vector<v1::ScanResponse> pages;
  EXPECT_EQ(CodeAndReason(daemon.Scan(scan, &pages)), "INVALID_ARGUMENT KEY_TOO_LONG");
  context.TryCancel();
}

// A Get of a large value: one that was refused, or the last one within half a second, on a
// connection whose scans nobody reads. How much is held for them at a moment depends on the buffers
// on the way.
grpc::Status GetBesideUnreadScans(v1::KvService::Stub& kv) {
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::ScanResponse>>> unread;
  for (int i = 0; i < 24; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    unread.push_back(kv.Scan(contexts.back().get(), {}));
  }
  v1::GetRequest request;
  request.set_key("key0");
  grpc::Status status;
  for (int i = 0; i < 50 && status.ok(); ++i) {
    v1::GetResponse response;
    grpc::ClientContext context;
    status = kv.Get(&context, request, &response);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  for (const auto& context : contexts) context->TryCancel();
  return status;
}

TEST(KvRefusalTest, AnswersCountAgainstTheShareOfTheirConnection) {
  Config config = TestConfig();
  config.max_inflight_size = 16 * kMiB;
  TestDaemon daemon(config);
  PutLargeValues(daemon, 24);
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto channel = grpc::CreateCustomChannel(daemon.daemon().data_address(),
                                                 grpc::InsecureChannelCredentials(), arguments);
  const auto kv = v1::KvService::NewStub(channel);
  grpc::Status status;
  for (int i = 0; i < 20 && status.ok(); ++i) status = GetBesideUnreadScans(*kv);
  ASSERT_EQ(CodeAndReason(status), "RESOURCE_EXHAUSTED TOO_MANY_BYTES");
  EXPECT_EQ(DetailsOf(status).quota.violations(0).subject(), "connection_share");
  EXPECT_LE(daemon.daemon().state().admission().bytes(), 8 * kMiB);
  EXPECT_EQ(daemon.ValueOf("key0").size(), kMiB) << "another connection is served all the same";
}

// Also while their poller is busy and delivers none: else they would add up beyond every limit.
TEST(KvRefusalTest, LargeValuesCountAsSoonAsTheyAreRead) {
  constexpr int kGets = 4;
  Gate read;
  Gate write;
  auto faults = std::make_shared<Faults>();
  Config config = TestConfig();
  config.threads = config.scan_threads = 1;
  TestDaemon daemon(config, HooksOf(faults));
  PutLargeValues(daemon, kGets);
  faults->on_long_read = [&] { read.Pass(); };
  std::vector<std::jthread> clients;
  for (int i = 0; i < kGets; ++i) {
    clients.emplace_back(
        [&, i] { EXPECT_EQ(daemon.ValueOf("key" + std::to_string(i)).size(), kMiB); });
  }
  ASSERT_TRUE(AwaitInFlight(daemon, kGets));
  read.AwaitArrival();
  faults->on_write = [&](size_t) { write.Pass(); };
  clients.emplace_back([&] { EXPECT_TRUE(daemon.Put("k", "v").ok()); });
  write.AwaitArrival();
  read.Open();
  EXPECT_TRUE(AwaitBytes(daemon, kGets * kMiB));
  write.Open();
}

// A batch of them, or a message of a session, is read no further than its answer may grow.
TEST(KvRefusalTest, LargeValuesOfABatchAreReadOneByOne) {
  constexpr int kGets = 8;
  auto faults = std::make_shared<Faults>();
  TestDaemon daemon(TestConfig(), HooksOf(faults));
  PutLargeValues(daemon, kGets);
  std::atomic<int> reads{0};
  faults->on_long_read = [&] { ++reads; };
  v1::BatchGetRequest batch;
  v1::SessionRequest message;
  for (int i = 0; i < kGets; ++i) {
    batch.add_keys("key" + std::to_string(i));
    AddOperation(message, v1::OPERATION_KIND_GET, "key" + std::to_string(i));
  }
  v1::BatchGetResponse response;
  EXPECT_EQ(CodeAndReason(daemon.BatchGet(batch, &response)),
            "RESOURCE_EXHAUSTED ANSWER_TOO_LARGE");
  EXPECT_EQ(reads, 4) << "more than 4 MiB";
  reads = 0;
  TestSession session(daemon);
  EXPECT_TRUE(session.Ask(message).results(kGets - 1).has_error());
  EXPECT_EQ(reads, 4);
}

// Its call is cancelled, and what it held is available to others.
TEST(KvRefusalTest, AScanThatNobodyReadsIsCancelled) {
  Config config = TestConfig();
  config.answer_timeout_ms = 1'000;
  TestDaemon daemon(config);
  PutLargeValues(daemon, 16);
  grpc::ClientContext context;
  const auto scan = daemon.kv().Scan(&context, {});
  v1::ScanResponse page;
  ASSERT_TRUE(scan->Read(&page));
  EXPECT_TRUE(AwaitInFlight(daemon, 1));
  EXPECT_TRUE(AwaitInFlight(daemon, 0)) << "after answer_timeout";
  EXPECT_EQ(daemon.daemon().state().admission().bytes(), 0);
  while (scan->Read(&page)) {
  }
  EXPECT_EQ(scan->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

// The scan takes longer than answer_timeout, but no page does. (A client opens its window again
// when half of it is read, so a page may need several reads.)
TEST(KvRefusalTest, AScanReadSlowlyEndsWell) {
  Config config = TestConfig();
  config.answer_timeout_ms = 2'000;
  TestDaemon daemon(config);
  PutLargeValues(daemon, 24);
  grpc::ClientContext context;
  const auto scan = daemon.kv().Scan(&context, {});
  v1::ScanResponse page;
  int items = 0;
  while (scan->Read(&page)) {
    items += page.items_size();
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
  }
  EXPECT_TRUE(scan->Finish().ok());
  EXPECT_EQ(items, 24);
}

TEST(KvRefusalTest, GetsDoNotWaitForAWriteThatWaitsForTheMedium) {
  auto faults = std::make_shared<Faults>();
  faults->long_fences = true;
  std::atomic<bool> hold{false};
  faults->on_write = [&](size_t) {
    while (hold) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  Config config = TestConfig();
  config.threads = 1;
  TestDaemon daemon(config, HooksOf(faults));
  ASSERT_TRUE(daemon.Put("k", "v").ok());
  hold = true;
  std::thread writer([&] { EXPECT_TRUE(daemon.Put("k", "w").ok()); });
  EXPECT_TRUE(AwaitInFlight(daemon, 1));
  EXPECT_EQ(daemon.ValueOf("k"), "v");
  hold = false;
  writer.join();
}

TEST(KvRefusalTest, AFullPoolRefusesPutsAndServesTheRest) {
  auto faults = std::make_shared<Faults>();
  TestDaemon daemon(TestConfig(), HooksOf(faults));
  ASSERT_TRUE(daemon.Put("k", "v").ok());
  faults->puts = Outcome::kPoolFull;
  const grpc::Status status = daemon.Put("more", "v");
  EXPECT_EQ(CodeAndReason(status), "RESOURCE_EXHAUSTED POOL_FULL");
  EXPECT_EQ(DetailsOf(status).quota.violations(0).subject(), "pool");
  EXPECT_FALSE(DetailsOf(status).has_retry);
  EXPECT_EQ(daemon.ValueOf("k"), "v");
  std::vector<v1::ScanResponse> pages;
  EXPECT_TRUE(daemon.Scan({}, &pages).ok());
  v1::DeleteRequest request;
  request.set_key("k");
  EXPECT_TRUE(daemon.Delete(request).ok());
  EXPECT_EQ(daemon.ValueOf("k"), "(none)");
}

// A delete may free less than a put needs: the operator is to hear of puts that are refused.
TEST(KvRefusalTest, ThePoolIsReportedFullUntilAPutIsApplied) {
  auto faults = std::make_shared<Faults>();
  TestDaemon daemon(TestConfig(), HooksOf(faults));
  const auto state = [&] {
    v1::StatusResponse response;
    grpc::ClientContext context;
    EXPECT_TRUE(daemon.admin().Status(&context, {}, &response).ok());
    return response.state();
  };
  for (const char* key : {"a", "b", "c"}) ASSERT_TRUE(daemon.Put(key, "v").ok());
  EXPECT_EQ(state(), v1::SERVER_STATE_SERVING);
  faults->puts = Outcome::kPoolFull;
  EXPECT_FALSE(daemon.Put("more", "v").ok());
  EXPECT_EQ(state(), v1::SERVER_STATE_READ_ONLY_FULL);
  v1::DeleteRequest request;
  request.set_key("missing");
  EXPECT_TRUE(daemon.Delete(request).ok());
  EXPECT_EQ(state(), v1::SERVER_STATE_READ_ONLY_FULL);
  request.set_key("a");
  EXPECT_TRUE(daemon.Delete(request).ok());
  EXPECT_EQ(state(), v1::SERVER_STATE_READ_ONLY_FULL);
  TestSession session(daemon);
  EXPECT_FALSE(session.Ask(OneOperation(1, v1::OPERATION_KIND_DELETE, "b")).has_error());
  EXPECT_EQ(state(), v1::SERVER_STATE_READ_ONLY_FULL);
  faults->puts = Outcome::kOk;
  v1::BatchWriteRequest batch;
  batch.add_operations()->set_kind(v1::OPERATION_KIND_DELETE);
  batch.mutable_operations(0)->set_key("c");
  EXPECT_TRUE(daemon.BatchWrite(batch).ok());
  EXPECT_EQ(state(), v1::SERVER_STATE_READ_ONLY_FULL);
  EXPECT_TRUE(daemon.Put("more", "v").ok());
  EXPECT_EQ(state(), v1::SERVER_STATE_SERVING);
}

TEST(KvRefusalTest, ADamagedRecordIsDataLossAndNotAnAbsentKey) {
  auto faults = std::make_shared<Faults>();
  TestDaemon daemon(TestConfig(), HooksOf(faults));
  faults->reads = Outcome::kDataLoss;
  EXPECT_EQ(daemon.ValueOf("k"), "DATA_LOSS DAMAGED_RECORD");
}

TEST(KvRefusalTest, AFailedMediumAcknowledgesNothing) {
  auto faults = std::make_shared<Faults>();
  TestDaemon daemon(TestConfig(), HooksOf(faults));
  faults->puts = Outcome::kMediumFailed;
  EXPECT_EQ(CodeAndReason(daemon.Put("k", "v")), "UNAVAILABLE MEDIUM_FAILED");
}

}  // namespace
}  // namespace lodgekv::server::testing
