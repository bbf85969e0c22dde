// A daemon inside the test's process, on free loopback ports, with a clock that the test sets; and
// helpers to call it and to read its errors.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "lodgekv/v1/admin.grpc.pb.h"
#include "lodgekv/v1/kv.grpc.pb.h"
#include "server/lifecycle.h"
#include "server/testing/fake_store.h"

namespace lodgekv::server::testing {

class TestClock final : public Clock {
 public:
  uint64_t NowUnixMs() const override { return now_.load(); }
  void Advance(uint64_t milliseconds) { now_ += milliseconds; }
  void SetBack(uint64_t milliseconds) { now_ -= milliseconds; }

 private:
  std::atomic<uint64_t> now_{1'700'000'000'000};
};

// Opens a FakeStore with these faults.
DaemonHooks HooksOf(std::shared_ptr<Faults> faults);

// Engine dram, free ports, no metrics endpoint, a short grace period.
Config TestConfig();

class TestDaemon {
 public:
  // Aborts with a message if it does not start.
  explicit TestDaemon(const Config& config = TestConfig(), DaemonHooks hooks = {});
  ~TestDaemon();

  TestClock& clock() { return clock_; }
  Daemon& daemon() { return *daemon_; }
  v1::KvService::Stub& kv() { return *kv_; }
  v1::AdminService::Stub& admin() { return *admin_; }
  std::shared_ptr<grpc::Channel> data_channel() { return data_channel_; }
  std::shared_ptr<grpc::Channel> admin_channel() { return admin_channel_; }

  // Calls with a deadline of ten seconds, so that a lost answer fails the test instead of blocking
  // it.
  grpc::Status Put(const v1::PutRequest& request, v1::PutResponse* response = nullptr);
  grpc::Status Put(const std::string& key, const std::string& value);
  grpc::Status Get(const std::string& key, v1::GetResponse* response);
  grpc::Status Delete(const v1::DeleteRequest& request, v1::DeleteResponse* response = nullptr);
  grpc::Status BatchWrite(const v1::BatchWriteRequest& request,
                          v1::BatchWriteResponse* response = nullptr);
  grpc::Status BatchGet(const v1::BatchGetRequest& request, v1::BatchGetResponse* response);
  // All pages.
  grpc::Status Scan(const v1::ScanRequest& request, std::vector<v1::ScanResponse>* pages);
  // The value, or "(none)", or the code of the error.
  std::string ValueOf(const std::string& key);

 private:
  TestClock clock_;
  std::unique_ptr<Daemon> daemon_;
  std::shared_ptr<grpc::Channel> data_channel_;
  std::shared_ptr<grpc::Channel> admin_channel_;
  std::unique_ptr<v1::KvService::Stub> kv_;
  std::unique_ptr<v1::AdminService::Stub> admin_;
};

void SetDeadline(grpc::ClientContext& context,
                 std::chrono::milliseconds after = std::chrono::seconds(10));

// The details of an error, unpacked; missing ones are empty.
struct ErrorDetails {
  google::rpc::ErrorInfo info;
  google::rpc::BadRequest bad_request;
  google::rpc::RetryInfo retry;
  google::rpc::QuotaFailure quota;
  google::rpc::PreconditionFailure precondition;
  bool has_retry = false;
};
ErrorDetails DetailsOf(const grpc::Status& status);

// Waits until the condition holds. False: it did not within 20 seconds, which is less than the
// deadline of a TestSession.
bool Await(const std::function<bool()>& condition);

// Likewise until `operations` are in flight.
bool AwaitInFlight(TestDaemon& daemon, uint64_t operations);

// "INVALID_ARGUMENT KEY_EMPTY", the code and the reason.
std::string CodeAndReason(const grpc::Status& status);

v1::PutRequest MakePut(const std::string& key, const std::string& value,
                       v1::Condition condition = v1::CONDITION_UNSPECIFIED,
                       uint64_t if_version = 0);

// The answer of grpc.health.v1.Health/Check: "SERVING", "NOT_SERVING", or the code of an error.
std::string HealthOf(const std::shared_ptr<grpc::Channel>& channel,
                     const std::string& service = "");

// The raw answer of the reflection service to "list the services", or the code of an error.
std::string ListServices(const std::shared_ptr<grpc::Channel>& channel);

// The raw answer of the reflection service about the file that declares `symbol`, or the code of an
// error.
std::string DescribeSymbol(const std::shared_ptr<grpc::Channel>& channel,
                           const std::string& symbol);

// The body of GET http://ADDRESS/metrics.
std::string Scrape(const std::string& address);

}  // namespace lodgekv::server::testing
