// The client against a service in this process whose answers the test sets.
#include "client/lodgekv_client.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/reported_error.h"
#include "lodgekv/v1/admin.grpc.pb.h"
#include "lodgekv/v1/kv.grpc.pb.h"

namespace lodgekv::client {
namespace {

class ScriptedService final : public v1::KvService::Service {
 public:
  grpc::Status Get(grpc::ServerContext*, const v1::GetRequest* request,
                   v1::GetResponse* response) override {
    if (!error.ok()) return error;
    response->set_found(true);
    response->set_value(request->key() + "!");
    response->set_version(7);
    response->mutable_expire_time()->set_seconds(1'700'000'000);
    return grpc::Status::OK;
  }

  grpc::Status Put(grpc::ServerContext* context, const v1::PutRequest* request,
                   v1::PutResponse* response) override {
    ++puts;
    put = *request;
    AddCost(*context, request->want_cost());
    while (stall && !context->IsCancelled()) absl::SleepFor(absl::Milliseconds(1));
    response->set_version(9);
    return error;
  }

  grpc::Status Scan(grpc::ServerContext* context, const v1::ScanRequest* request,
                    grpc::ServerWriter<v1::ScanResponse>* writer) override {
    scan = *request;
    AddCost(*context, request->want_cost());
    for (int page = 0; page < pages && !context->IsCancelled(); ++page) {
      v1::ScanResponse response;
      for (int item = 0; item < 2; ++item) {
        response.add_items()->set_key(absl::StrCat(page, ".", item));
      }
      response.set_continuation(page + 1 < pages ? absl::StrCat("behind ", page) : "");
      writer->Write(response);
    }
    return error;
  }

  grpc::Status BatchGet(grpc::ServerContext* context, const v1::BatchGetRequest* request,
                        v1::BatchGetResponse*) override {
    EXPECT_EQ(request->keys_size(), 0);
    AddCost(*context, request->want_cost());
    return error;
  }

  grpc::Status BatchWrite(grpc::ServerContext* context, const v1::BatchWriteRequest* request,
                          v1::BatchWriteResponse* response) override {
    batch = *request;
    AddCost(*context, request->want_cost());
    for (const v1::Operation& operation : request->operations()) {
      response->add_results()->set_found(operation.kind() == v1::OPERATION_KIND_DELETE);
    }
    return error;
  }

  static void AddCost(grpc::ServerContext& context, bool wanted) {
    if (!wanted) return;
    v1::Cost cost;
    cost.set_lines_flushed(12);
    cost.set_group_operations(4);
    cost.mutable_share()->set_lines_flushed(3);
    context.AddTrailingMetadata("lodgekv-cost-bin", cost.SerializeAsString());
  }

  grpc::Status error;
  std::atomic<bool> stall = false;
  std::atomic<int> puts = 0;
  int pages = 3;
  v1::PutRequest put;
  v1::ScanRequest scan;
  v1::BatchWriteRequest batch;
};

class ClientTest : public testing::Test {
 protected:
  ClientTest() {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    options_.server = absl::StrCat("127.0.0.1:", port);
    client_ = Client::Create(options_);
  }
  ~ClientTest() override { server_->Shutdown(std::chrono::system_clock::now()); }

  ScriptedService service_;
  std::unique_ptr<grpc::Server> server_;
  ClientOptions options_;
  std::unique_ptr<Client> client_;
};

TEST_F(ClientTest, GetReadsEveryField) {
  const GetResult result = client_->Get(std::string_view("k\0", 2)).value();
  EXPECT_TRUE(result.found);
  EXPECT_EQ(result.value, std::string("k\0!", 3));
  EXPECT_EQ(result.version, 7u);
  EXPECT_EQ(result.expire_time, absl::FromUnixSeconds(1'700'000'000));
}

TEST_F(ClientTest, APingAsksForNothing) {
  int costs = 0;
  options_.on_cost = [&costs](const v1::Cost&) { ++costs; };
  const auto client = Client::Create(options_);
  EXPECT_TRUE(client->Ping().ok());
  EXPECT_EQ(costs, 0);
  service_.error = ErrorWith(grpc::StatusCode::UNAVAILABLE, "RECOVERING");
  EXPECT_EQ(ErrorOf(client->Ping()).reason, "RECOVERING");
}

TEST_F(ClientTest, PutSendsConditionAndTtl) {
  PutOptions options;
  options.condition.if_version = 5;
  options.ttl = absl::Milliseconds(1'250);
  EXPECT_EQ(client_->Put("k", "v", options).value(), 9u);
  EXPECT_EQ(service_.put.condition(), v1::CONDITION_IF_VERSION);
  EXPECT_EQ(service_.put.if_version(), 5u);
  EXPECT_EQ(service_.put.ttl().seconds(), 1);
  EXPECT_EQ(service_.put.ttl().nanos(), 250'000'000);
}

TEST_F(ClientTest, ErrorsKeepCodeMessageAndDetails) {
  service_.error = ErrorWith(grpc::StatusCode::RESOURCE_EXHAUSTED, "TOO_MANY_BYTES");
  const absl::Status status = client_->Get("k").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "said by the server");
  const ErrorInfo error = ErrorOf(status);
  EXPECT_EQ(error.reason, "TOO_MANY_BYTES");
  EXPECT_EQ(error.metadata.at("limit"), "4096");
  ASSERT_EQ(error.violations.size(), 1u);
  EXPECT_EQ(error.violations[0].first, "key");
  EXPECT_EQ(error.retry_after, absl::Milliseconds(250));
}

TEST_F(ClientTest, TellsWhichFailedWritesAreUnknown) {
  const std::vector<std::tuple<grpc::Status, bool>> cases{
      {ErrorWith(grpc::StatusCode::UNAVAILABLE, "DRAINING"), false},
      {ErrorWith(grpc::StatusCode::UNAVAILABLE, "MEDIUM_FAILED"), true},
      {ErrorWith(grpc::StatusCode::UNAVAILABLE, "POOL_GONE"), true},
      {ErrorWith(grpc::StatusCode::INVALID_ARGUMENT, "INVALID_ARGUMENT"), false},
      {ErrorWith(grpc::StatusCode::INTERNAL, "INTERNAL"), false},
      {grpc::Status(grpc::StatusCode::UNAVAILABLE, "reset"), true},
      {grpc::Status(grpc::StatusCode::INTERNAL, "Received RST_STREAM with error code 0"), true},
      {grpc::Status(grpc::StatusCode::UNKNOWN, "?"), true},
      {grpc::Status(grpc::StatusCode::CANCELLED, "?"), true},
  };
  for (const auto& [error, unknown] : cases) {
    service_.error = error;
    const absl::Status status = client_->Put("k", "v", {}).status();
    EXPECT_EQ(WriteIsUnknown(status), unknown) << status;
  }
}

TEST_F(ClientTest, NeverRepeatsAWrite) {
  service_.error = grpc::Status(grpc::StatusCode::UNAVAILABLE, "once");
  EXPECT_FALSE(client_->Put("k", "v", {}).ok());
  EXPECT_EQ(service_.puts, 1);
}

TEST_F(ClientTest, GivesUpAtTheTimeout) {
  service_.stall = true;
  options_.timeout = absl::Milliseconds(50);
  const absl::Status status = Client::Create(options_)->Put("k", "v", {}).status();
  service_.stall = false;
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(WriteIsUnknown(status));
}

TEST_F(ClientTest, ScanVisitsAllPages) {
  std::vector<std::string> keys;
  std::string continuation = "unset";
  ScanOptions options;
  options.prefix = "p";
  options.reverse = true;
  const absl::Status status = client_->Scan(
      options,
      [&](const ScanItem& item) {
        keys.emplace_back(item.key);
        return true;
      },
      &continuation);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(keys, testing::ElementsAre("0.0", "0.1", "1.0", "1.1", "2.0", "2.1"));
  EXPECT_EQ(continuation, "");
  EXPECT_EQ(service_.scan.prefix(), "p");
  EXPECT_TRUE(service_.scan.reverse());
}

TEST_F(ClientTest, AVisitorEndsAnEndlessScan) {
  service_.pages = 1'000'000'000;
  int visited = 0;
  std::string continuation;
  const absl::Status status = client_->Scan(
      {}, [&](const ScanItem&) { return ++visited < 5; }, &continuation);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(visited, 5);
  EXPECT_EQ(continuation, "behind 1");
}

TEST_F(ClientTest, ABrokenScanIsAnErrorAndTellsWhereToGoOn) {
  service_.pages = 2;
  service_.error = grpc::Status(grpc::StatusCode::DATA_LOSS, "damaged");
  int visited = 0;
  const absl::Status status = client_->Scan(
      {}, [&](const ScanItem&) { return ++visited > 0; }, nullptr);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(visited, 4);
}

TEST_F(ClientTest, BatchWriteTakesPutsAndDeletes) {
  const std::vector<BatchResult> results =
      client_->BatchWrite({{"a", "1", {}}, {"b", std::nullopt, {}}}).value();
  ASSERT_EQ(service_.batch.operations_size(), 2);
  EXPECT_EQ(service_.batch.operations(0).kind(), v1::OPERATION_KIND_PUT);
  EXPECT_EQ(service_.batch.operations(1).kind(), v1::OPERATION_KIND_DELETE);
  EXPECT_FALSE(results[0].found);
  EXPECT_TRUE(results[1].found);
}

TEST_F(ClientTest, StartedWritesEndOnce) {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<absl::Status> ended;
  auto done = [&](absl::Status status) {
    std::lock_guard lock(mutex);
    ended.push_back(std::move(status));
    changed.notify_one();
  };
  client_->StartBatchWrite({{"a", "1", {}}}, done);
  client_->StartPut("k", "v", {}, done);
  std::unique_lock lock(mutex);
  ASSERT_TRUE(changed.wait_for(lock, std::chrono::seconds(10), [&] { return ended.size() == 2; }));
  EXPECT_TRUE(ended[0].ok() && ended[1].ok());
}

TEST_F(ClientTest, EndsWithCallsInFlight) {
  service_.stall = true;
  options_.timeout = absl::Milliseconds(50);
  std::unique_ptr<Client> client = Client::Create(options_);
  std::optional<absl::Status> ended;
  client->StartPut("k", "v", {}, [&](absl::Status status) { ended = std::move(status); });
  client.reset();
  EXPECT_EQ(ended.value().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(ClientTest, CostIsHandedOnWhenAskedFor) {
  ASSERT_TRUE(client_->Put("k", "v", {}).ok());
  EXPECT_FALSE(service_.put.want_cost());
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<v1::Cost> costs;
  int ended = 0;
  options_.on_cost = [&](const v1::Cost& cost) {
    const std::lock_guard lock(mutex);
    costs.push_back(cost);
  };
  const std::unique_ptr<Client> client = Client::Create(options_);
  ASSERT_TRUE(client->Put("k", "v", {}).ok());
  ASSERT_TRUE(client->BatchWrite({{"a", "1", {}}}).ok());
  ASSERT_TRUE(client
                  ->Scan(
                      {}, [](const ScanItem&) { return true; }, nullptr)
                  .ok());
  const auto done = [&](const absl::Status&) {
    const std::lock_guard lock(mutex);
    ++ended;
    changed.notify_one();
  };
  client->StartPut("k", "v", {}, done);
  client->StartBatchWrite({{"a", "1", {}}}, done);
  std::unique_lock lock(mutex);
  ASSERT_TRUE(changed.wait_for(lock, std::chrono::seconds(10), [&] { return ended == 2; }));
  ASSERT_EQ(costs.size(), 5u);
  for (const v1::Cost& cost : costs) {
    EXPECT_EQ(cost.lines_flushed(), 12u);
    EXPECT_EQ(cost.share().lines_flushed(), 3u);
  }
  lock.unlock();
  // A failed call has its cost, too; one that the server answered without has none.
  service_.error = ErrorWith(grpc::StatusCode::FAILED_PRECONDITION, "CONDITION_FAILED");
  EXPECT_FALSE(client->Put("k", "v", {}).ok());
  EXPECT_EQ(costs.size(), 6u);
  EXPECT_FALSE(client->Get("k").ok());
  EXPECT_EQ(costs.size(), 6u);
}

TEST(ClientWithoutServerTest, FailsAtOnce) {
  ClientOptions options;
  options.server = "unix:/nonexistent/lodgekv.sock";
  options.admin = options.server;
  EXPECT_EQ(Client::Create(options)->Get("k").status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(AdminClient::Create(options)->Status().status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace lodgekv::client
