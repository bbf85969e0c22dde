// Clients within the limits with heavy load: no limit for other clients hinders them.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/rpc/batch_request.h"
#include "server/testing/gate.h"
#include "server/testing/test_daemon.h"

namespace lodgekv::server::testing {
namespace {

std::shared_ptr<Faults> FirstWritePasses(Gate& gate) {
  auto faults = std::make_shared<Faults>();
  faults->on_write = [&gate, writes = std::make_shared<std::atomic<int>>(0)](size_t) {
    if ((*writes)++ == 0) gate.Pass();
  };
  return faults;
}

// Many calls on one connection at once, and their outcomes.
class PutsAtOnce {
 public:
  PutsAtOnce(TestDaemon& daemon, size_t count, const std::string& value) : calls_(count) {
    for (size_t i = 0; i < count; ++i) {
      Call& call = calls_[i];
      call.request = MakePut("key" + std::to_string(i), value);
      SetDeadline(call.context, std::chrono::seconds(60));
      daemon.kv().async()->Put(
          &call.context, &call.request, &call.response,
          [this, &call](grpc::Status status) { End(call, std::move(status)); });
    }
  }

  // The number that ended with this code; waits for all.
  int CountOf(grpc::StatusCode code) {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return ends_ == calls_.size(); });
    int count = 0;
    for (const Call& call : calls_) count += call.status.error_code() == code ? 1 : 0;
    return count;
  }

 private:
  struct Call {
    grpc::ClientContext context;
    v1::PutRequest request;
    v1::PutResponse response;
    grpc::Status status;
  };

  void End(Call& call, grpc::Status status) {
    const std::lock_guard lock(mutex_);
    call.status = std::move(status);
    ++ends_;
    ended_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable ended_;
  std::vector<Call> calls_;
  size_t ends_ = 0;
};

// Their frames are interleaved, so most of their bytes arrive before the first request is complete.
TEST(KvLoadTest, ManyLargePutsAtOnceAllSucceed) {
  constexpr size_t kPuts = 128;
  TestDaemon daemon;
  for (int round = 0; round < 3; ++round) {
    PutsAtOnce puts(daemon, kPuts, std::string(1 << 20, 'v'));
    EXPECT_EQ(puts.CountOf(grpc::StatusCode::UNAVAILABLE), 0) << "the connection was ended";
    EXPECT_EQ(
        puts.CountOf(grpc::StatusCode::OK) + puts.CountOf(grpc::StatusCode::RESOURCE_EXHAUSTED),
        static_cast<int>(kPuts));
  }
}

// What is large is read, and written, by other threads than those that serve all calls. A gate
// holds up what a test says.
class KvLargeValuesTest : public ::testing::Test {
 protected:
  static Config OnePoller() {
    Config config = TestConfig();
    config.threads = 1;
    return config;
  }
  // And has each read of a large value held up.
  void PutAll(std::initializer_list<const char*> large_keys) {
    for (const char* key : large_keys) ASSERT_TRUE(daemon_.Put(key, large_).ok());
    ASSERT_TRUE(daemon_.Put("small", "v").ok());
    faults_->on_long_read = [this] { gate_.Pass(); };
  }
  // While `call` waits at the gate.
  void ExpectOthersAreServed(const std::function<void()>& call) {
    std::thread caller(call);
    gate_.AwaitArrival();
    EXPECT_TRUE(daemon_.Put("small", "v").ok());
    EXPECT_EQ(daemon_.ValueOf("small"), "v");
    gate_.Open();
    caller.join();
  }

  const std::string large_ = std::string(1 << 20, 'v');
  Gate gate_;
  std::shared_ptr<Faults> faults_ = std::make_shared<Faults>();
  TestDaemon daemon_{OnePoller(), HooksOf(faults_)};
};

TEST_F(KvLargeValuesTest, OfAGetHoldUpNobody) {
  PutAll({"large"});
  ExpectOthersAreServed([&] { EXPECT_EQ(daemon_.ValueOf("large"), large_); });
}

TEST_F(KvLargeValuesTest, OfABatchHoldUpNobody) {
  PutAll({"large1", "large2"});
  const std::vector<std::string> keys{"small", "large1", "absent", "large2", "small"};
  const std::vector<std::string> values{"v", large_, "", large_, "v"};
  v1::BatchGetRequest request;
  for (const std::string& key : keys) request.add_keys(key);
  v1::BatchGetResponse response;
  ExpectOthersAreServed([&] { EXPECT_TRUE(daemon_.BatchGet(request, &response).ok()); });
  ASSERT_EQ(response.results_size(), keys.size());
  for (int i = 0; i < response.results_size(); ++i) {
    EXPECT_EQ(response.results(i).value(), values[i]) << keys[i];
  }
}

TEST_F(KvLargeValuesTest, OfAPutHoldUpNobody) {
  faults_->on_write = FirstWritePasses(gate_)->on_write;
  ExpectOthersAreServed([&] { EXPECT_TRUE(daemon_.Put("large", large_).ok()); });
  EXPECT_EQ(daemon_.ValueOf("large"), large_);
}

// What the kernel shows of the process's threads with this name.
std::vector<int> NiceValuesOf(const std::string& name) {
  std::vector<int> values;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string comm;
    std::getline(std::ifstream(task.path() / "comm"), comm);
    const int tid = std::stoi(task.path().filename().string());
    if (comm == name) values.push_back(getpriority(PRIO_PROCESS, static_cast<id_t>(tid)));
  }
  return values;
}

TEST(KvLoadTest, ThreadsForScansGiveWay) {
  Config config = TestConfig();
  config.scan_threads = 1;
  config.scan_nice = 7;
  TestDaemon daemon(config);
  v1::BatchGetRequest request;
  for (int i = 0; i < 300; ++i) request.add_keys("key");
  v1::BatchGetResponse response;
  ASSERT_TRUE(daemon.BatchGet(request, &response).ok());  // by such a thread: it runs
  const int own = getpriority(PRIO_PROCESS, 0);
  EXPECT_EQ(NiceValuesOf("lodgekv-scan"), std::vector{std::min(own + 7, 19)});
  EXPECT_EQ(NiceValuesOf("lodgekv-write"), std::vector{own});
  EXPECT_EQ(NiceValuesOf("lodgekv-poller"),
            std::vector(NiceValuesOf("lodgekv-poller").size(), own));
}

// However long it waits to be parsed, as that of a small put.
TEST(KvLoadTest, TheTtlOfALargePutCountsFromItsReceipt) {
  Gate gate;
  const auto faults = FirstWritePasses(gate);
  Config config = TestConfig();
  config.write_threads = 1;
  TestDaemon daemon(config, HooksOf(faults));
  v1::PutRequest request = MakePut("large", std::string(1 << 20, 'v'));
  std::jthread first([&] { EXPECT_TRUE(daemon.Put(request).ok()); });
  gate.AwaitArrival();
  const uint64_t received = daemon.clock().NowUnixMs();
  request.mutable_ttl()->set_seconds(60);
  std::jthread second([&] { EXPECT_TRUE(daemon.Put(request).ok()); });
  EXPECT_TRUE(AwaitInFlight(daemon, 2));
  daemon.clock().Advance(10'000);
  gate.Open();
  first.join();
  second.join();
  v1::GetResponse response;
  ASSERT_TRUE(daemon.Get("large", &response).ok());
  EXPECT_EQ(response.expire_time().seconds(), static_cast<int64_t>(received / 1'000 + 60));
}

// The call object of a large put that was never parsed serves small ones as any other.
TEST(KvLoadTest, AfterALargePutWhoseDeadlinePassedSmallOnesAreNotHeldUp) {
  const v1::PutRequest large = MakePut("large", std::string(1 << 20, 'v'));
  auto faults = std::make_shared<Faults>();
  std::atomic<Gate*> gate{nullptr};
  faults->on_write = [&](size_t) {
    if (Gate* at = gate.exchange(nullptr)) at->Pass();
  };
  Config config = TestConfig();
  config.threads = 1;
  TestDaemon daemon(config, HooksOf(faults));
  Gate first;
  gate = &first;
  std::jthread holder([&] { EXPECT_TRUE(daemon.Put(large).ok()); });
  first.AwaitArrival();
  grpc::ClientContext context;
  SetDeadline(context, std::chrono::milliseconds(50));
  v1::PutResponse response;
  EXPECT_EQ(daemon.kv().Put(&context, large, &response).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  first.Open();
  holder.join();
  Gate second;
  gate = &second;
  std::jthread next([&] { EXPECT_TRUE(daemon.Put(large).ok()); });
  second.AwaitArrival();
  // Enough for each call object to have its turn.
  bool applied = true;
  for (int i = 0; i < 100 && applied; ++i) applied = daemon.Put("small", "v").ok();
  EXPECT_TRUE(applied);
  second.Open();
  next.join();
}

TEST(KvLoadTest, ALargePutThatIsInvalidIsRefusedByName) {
  TestDaemon daemon;
  EXPECT_EQ(CodeAndReason(daemon.Put("k", std::string((1 << 20) + 1, 'v'))),
            "INVALID_ARGUMENT VALUE_TOO_LARGE");
  EXPECT_EQ(CodeAndReason(daemon.Put("", std::string(1 << 20, 'v'))), "INVALID_ARGUMENT KEY_EMPTY");
  EXPECT_TRUE(AwaitInFlight(daemon, 0));
}

void AddPut(v1::BatchWriteRequest& request, const std::string& key) {
  v1::Operation& operation = *request.add_operations();
  operation.set_kind(v1::OPERATION_KIND_PUT);
  operation.set_key(key);
}

void AddPuts(v1::BatchWriteRequest& request, int count) {
  for (int i = 0; i < count; ++i) AddPut(request, "key" + std::to_string(i));
}

// So one whose content is wrong is not refused while that thread is busy; a short one is at once.
TEST(KvLoadTest, ALongBatchOfWritesIsParsedByTheThreadThatAppliesIt) {
  Gate gate;
  const auto faults = FirstWritePasses(gate);
  Config config = TestConfig();
  config.write_threads = 1;
  TestDaemon daemon(config, HooksOf(faults));
  std::jthread holder([&] { EXPECT_TRUE(daemon.Put("large", std::string(1 << 20, 'v')).ok()); });
  gate.AwaitArrival();
  v1::BatchWriteRequest batch;
  AddPuts(batch, 127);
  AddPut(batch, "");
  EXPECT_EQ(CodeAndReason(daemon.BatchWrite(batch)), "INVALID_ARGUMENT KEY_EMPTY");
  AddPut(batch, "one more");
  grpc::ClientContext context;
  SetDeadline(context, std::chrono::milliseconds(50));
  v1::BatchWriteResponse response;
  EXPECT_EQ(daemon.kv().BatchWrite(&context, batch, &response).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  gate.Open();
  holder.join();
  const grpc::Status status = daemon.BatchWrite(batch);
  EXPECT_EQ(CodeAndReason(status), "INVALID_ARGUMENT KEY_EMPTY");
  EXPECT_NE(status.error_message().find("operations[127]"), std::string::npos);
  EXPECT_TRUE(AwaitInFlight(daemon, 0));
}

uint64_t InvalidBytes(TestDaemon& daemon) {
  uint64_t bytes = 0;
  for (const auto& connection : daemon.daemon().state().connections().All()) {
    bytes += connection->invalid_bytes;
  }
  return bytes;
}

// What is counted of a batch is its content, by whoever finds that wrong. A long one that finds no
// room was not looked into: it is refused like a valid one, and costs the server no more.
TEST(KvLoadTest, ABatchCountsAsInvalidWhenItIsFoundToBe) {
  Gate gate;
  const auto faults = FirstWritePasses(gate);
  Config config = TestConfig();
  config.max_inflight_operations = 1;
  TestDaemon daemon(config, HooksOf(faults));
  v1::BatchWriteRequest batch;
  AddPuts(batch, 127);
  AddPut(batch, "");
  const auto bytes_of = [&](const std::string& expected) {
    const uint64_t before = InvalidBytes(daemon);
    EXPECT_EQ(CodeAndReason(daemon.BatchWrite(batch)), expected);
    return InvalidBytes(daemon) - before;
  };
  const uint64_t of_short = bytes_of("INVALID_ARGUMENT KEY_EMPTY");
  EXPECT_GE(of_short, 128 * sizeof(OperationFields));
  AddPut(batch, "one more");
  EXPECT_GT(bytes_of("INVALID_ARGUMENT KEY_EMPTY"), of_short);
  std::jthread holder([&] { EXPECT_TRUE(daemon.Put("large", std::string(1 << 20, 'v')).ok()); });
  gate.AwaitArrival();
  EXPECT_EQ(bytes_of("RESOURCE_EXHAUSTED TOO_MANY_OPERATIONS"), 0);
  gate.Open();
}

TEST(KvLoadTest, ALongBatchOfReadsIsParsedByTheThreadThatServesIt) {
  Gate gate;
  auto faults = std::make_shared<Faults>();
  faults->on_long_read = [&gate] { gate.Pass(); };
  Config config = TestConfig();
  config.scan_threads = 1;
  TestDaemon daemon(config, HooksOf(faults));
  ASSERT_TRUE(daemon.Put("large", std::string(1 << 20, 'v')).ok());
  std::jthread holder([&] { EXPECT_NE(daemon.ValueOf("large"), ""); });
  gate.AwaitArrival();
  v1::BatchGetRequest batch;
  for (int i = 0; i < 255; ++i) batch.add_keys("key");
  batch.add_keys("");
  v1::BatchGetResponse response;
  EXPECT_EQ(CodeAndReason(daemon.BatchGet(batch, &response)), "INVALID_ARGUMENT KEY_EMPTY");
  batch.add_keys("one more");
  grpc::ClientContext context;
  SetDeadline(context, std::chrono::milliseconds(50));
  EXPECT_EQ(daemon.kv().BatchGet(&context, batch, &response).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  gate.Open();
  holder.join();
  EXPECT_EQ(CodeAndReason(daemon.BatchGet(batch, &response)), "INVALID_ARGUMENT KEY_EMPTY");
  EXPECT_TRUE(AwaitInFlight(daemon, 0));
}

// Batches that are refused only after all of their content was checked.
class WrongBatches {
 public:
  WrongBatches(TestDaemon& daemon, size_t count, int operations = 128) : calls_(count) {
    AddPuts(request_, operations - 1);
    AddPut(request_, "");
    for (Call& call : calls_) {
      SetDeadline(call.context, std::chrono::seconds(60));
      daemon.kv().async()->BatchWrite(&call.context, &request_, &call.response,
                                      [this](const grpc::Status&) { ++answered_; });
    }
  }
  ~WrongBatches() { AwaitAll(); }

  size_t answered() const { return answered_; }
  void AwaitAll() const {
    while (answered_ < calls_.size()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

 private:
  struct Call {
    grpc::ClientContext context;
    v1::BatchWriteResponse response;
  };

  v1::BatchWriteRequest request_;
  std::atomic<size_t> answered_{0};
  std::vector<Call> calls_;
};

// While the thread is busy batches arrive, and then one put: the put is served before them.
TEST(KvLoadTest, ParsingBatchesDoesNotDelayAPut) {
  constexpr size_t kBatches = 100;
  constexpr std::chrono::milliseconds kTimeToArrive(1'000);
  auto faults = std::make_shared<Faults>();
  std::promise<void> busy;
  std::promise<void> go_on;
  const WrongBatches* sent = nullptr;
  size_t answered_before = kBatches;
  int writes = 0;
  faults->on_write = [&](size_t) {
    if (++writes == 1) {
      busy.set_value();
      go_on.get_future().wait();
    } else {
      std::this_thread::sleep_for(kTimeToArrive / 4);  // for answers, if there are any
      answered_before = sent->answered();
    }
  };
  Config config = TestConfig();
  config.threads = 1;
  TestDaemon daemon(config, HooksOf(faults));
  PutsAtOnce first(daemon, 1, "v");
  busy.get_future().wait();
  const WrongBatches batches(daemon, kBatches);
  sent = &batches;
  PutsAtOnce second(daemon, 1, "v");
  std::this_thread::sleep_for(kTimeToArrive);
  go_on.set_value();
  EXPECT_EQ(first.CountOf(grpc::StatusCode::OK), 1);
  EXPECT_EQ(second.CountOf(grpc::StatusCode::OK), 1);
  EXPECT_LT(answered_before, kBatches / 5);
  batches.AwaitAll();
}

// On a file, where a group of writes waits for the disk: long batches that are found invalid do not
// each let a group pass before the next batch is looked at.
TEST(KvLoadTest, ABatchDoesNotWaitForAGroupOfWritesForEachInvalidOneBeforeIt) {
  constexpr size_t kWrong = 6;
  constexpr int kLong = 129;
  Gate gate;
  auto faults = FirstWritePasses(gate);
  faults->long_fences = true;
  std::mutex mutex;
  std::vector<size_t> groups;
  faults->on_write = [&, first = faults->on_write](size_t operations) {
    first(operations);
    const std::lock_guard lock(mutex);
    groups.push_back(operations);
  };
  Config config = TestConfig();
  config.write_threads = 1;
  config.group_operations = 1;
  TestDaemon daemon(config, HooksOf(faults));
  PutsAtOnce first(daemon, 1, "v");
  gate.AwaitArrival();
  const WrongBatches wrong(daemon, kWrong, kLong);
  EXPECT_TRUE(AwaitInFlight(daemon, 1 + kWrong * kLong));
  std::jthread writer([&] {
    v1::BatchWriteRequest batch;
    AddPuts(batch, 2);
    EXPECT_TRUE(daemon.BatchWrite(batch).ok());
  });
  EXPECT_TRUE(AwaitInFlight(daemon, 3 + kWrong * kLong));
  PutsAtOnce puts(daemon, kWrong, "v");
  EXPECT_TRUE(AwaitInFlight(daemon, 3 + kWrong * kLong + kWrong));
  gate.Open();
  EXPECT_EQ(puts.CountOf(grpc::StatusCode::OK), static_cast<int>(kWrong));
  writer.join();
  const std::lock_guard lock(mutex);
  ASSERT_GE(groups.size(), 2);
  EXPECT_EQ(groups[1], 2);  // the batch, before the puts that came after it
}

}  // namespace
}  // namespace lodgekv::server::testing
