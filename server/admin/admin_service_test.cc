// The operator's service, health and reflection over a real connection.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "base/version.h"
#include "index/registry.h"
#include "server/testing/test_daemon.h"

namespace lodgekv::server::testing {
namespace {

using ::testing::HasSubstr;

class AdminServiceTest : public ::testing::Test {
 protected:
  AdminServiceTest() : daemon_(TestConfig(), HooksOf(faults_)) { SetDeadline(context_); }

  std::shared_ptr<Faults> faults_ = std::make_shared<Faults>();
  TestDaemon daemon_;
  grpc::ClientContext context_;
};

TEST_F(AdminServiceTest, StatusReportsEverything) {
  v1::StatusResponse response;
  ASSERT_TRUE(daemon_.admin().Status(&context_, {}, &response).ok());
  EXPECT_EQ(response.version(), kVersion);
  EXPECT_EQ(response.state(), v1::SERVER_STATE_SERVING);
  EXPECT_GE(response.uptime().nanos() + response.uptime().seconds(), 1);
  EXPECT_EQ(response.engine(), "dram");
  EXPECT_EQ(response.key_format(), v1::KEY_FORMAT_BYTES);
  EXPECT_EQ(response.pool_path(), "/fake/pool");
  EXPECT_EQ(response.pool_id(), "00112233445566778899aabbccddeeff");
  EXPECT_EQ(response.media_version(), 3);
  EXPECT_EQ(response.medium_class(), "pmem-adr");
  EXPECT_EQ(response.durability(), "medium");
  EXPECT_EQ(response.durability_detail(), "A test's word.");
  EXPECT_FALSE(response.pool_created());
  EXPECT_EQ(response.recovery().keys(), 7);
  EXPECT_EQ(response.recovery().leaves_scanned(), 5);
  EXPECT_EQ(response.recovery().duration().seconds(), 1);
  EXPECT_EQ(response.recovery().duration().nanos(), 250'000'000);
  EXPECT_FALSE(response.has_recovery_progress());
}

TEST_F(AdminServiceTest, StatusReportsARecoveryThatContinuesWhileServing) {
  RecoveryState recovery{.finished = false, .phase = "settling", .done = 3, .total = 8};
  auto faults = std::make_shared<Faults>();
  faults->recovery = [&recovery] { return recovery; };
  TestDaemon daemon(TestConfig(), HooksOf(faults));
  v1::StatusResponse response;
  ASSERT_TRUE(daemon.admin().Status(&context_, {}, &response).ok());
  EXPECT_EQ(response.state(), v1::SERVER_STATE_SERVING);
  EXPECT_EQ(response.recovery_progress().phase(), "settling");
  EXPECT_EQ(response.recovery_progress().done(), 3);
  EXPECT_EQ(response.recovery_progress().total(), 8);
  EXPECT_EQ(response.recovery().keys(), 7);
  EXPECT_FALSE(response.has_recovery_error());

  recovery = {.report = RecoveryReport{.keys = 9, .milliseconds = 2'000}};
  grpc::ClientContext after;
  ASSERT_TRUE(daemon.admin().Status(&after, {}, &response).ok());
  EXPECT_FALSE(response.has_recovery_progress());
  EXPECT_EQ(response.recovery().keys(), 9);
  EXPECT_EQ(response.recovery().duration().seconds(), 2);

  recovery = {.error = absl::DataLossError("leaf 7")};
  grpc::ClientContext failed;
  ASSERT_TRUE(daemon.admin().Status(&failed, {}, &response).ok());
  EXPECT_EQ(response.state(), v1::SERVER_STATE_SERVING);
  EXPECT_EQ(response.recovery_error(), "DATA_LOSS: leaf 7");
  EXPECT_EQ(response.recovery().keys(), 7);
}

TEST_F(AdminServiceTest, StatusReportsTheJournalIfThereIsOne) {
  v1::StatusResponse response;
  ASSERT_TRUE(daemon_.admin().Status(&context_, {}, &response).ok());
  EXPECT_FALSE(response.has_journal());

  auto faults = std::make_shared<Faults>();
  faults->journal = {.size_bytes = 4096, .used_bytes = 1024};
  TestDaemon daemon(TestConfig(), HooksOf(faults));
  grpc::ClientContext context;
  ASSERT_TRUE(daemon.admin().Status(&context, {}, &response).ok());
  const v1::JournalStatus& journal = response.journal();
  EXPECT_EQ(journal.path(), "/fake/pool.journal");
  EXPECT_EQ(journal.size_bytes(), 4096);
  EXPECT_EQ(journal.used_bytes(), 1024);
  EXPECT_EQ(journal.groups_replayed(), 12);
  EXPECT_EQ(journal.lines_replayed(), 345);
  EXPECT_EQ(journal.replay_duration().seconds(), 1);
  EXPECT_EQ(journal.replay_duration().nanos(), 500'000'000);
}

TEST_F(AdminServiceTest, StatsCountsKeysAndSpace) {
  for (const char* key : {"a", "b", "c"}) ASSERT_TRUE(daemon_.Put(key, "v").ok());
  v1::StatsResponse response;
  ASSERT_TRUE(daemon_.admin().Stats(&context_, {}, &response).ok());
  EXPECT_EQ(response.keys(), 3);
  EXPECT_EQ(response.space().total_bytes(), 100);
  EXPECT_EQ(response.space().used_bytes(), 60);
  EXPECT_EQ(response.space().free_bytes(), 30);
  EXPECT_EQ(response.space().reserved_bytes(), 10);
  EXPECT_GT(response.engine_dram_bytes(), 0);
  bool puts_seen = false;
  for (const v1::Counter& counter : response.engine_counters()) {
    EXPECT_FALSE(counter.help().empty()) << counter.name();
    EXPECT_NE(counter.kind(), v1::COUNTER_KIND_UNSPECIFIED) << counter.name();
    puts_seen = puts_seen || (counter.name() == "puts_total" && counter.value() == 3);
  }
  EXPECT_TRUE(puts_seen) << response.ShortDebugString();
  v1::StatsRequest skip;
  skip.set_skip_key_count(true);
  grpc::ClientContext context;
  ASSERT_TRUE(daemon_.admin().Stats(&context, skip, &response).ok());
  EXPECT_EQ(response.keys(), 0);
}

TEST_F(AdminServiceTest, EnginesAreThoseOfTheRegistry) {
  v1::EnginesResponse response;
  ASSERT_TRUE(daemon_.admin().Engines(&context_, {}, &response).ok());
  ASSERT_EQ(static_cast<size_t>(response.engines_size()), AllEngines().size());
  for (int i = 0; i < response.engines_size(); ++i) {
    const EngineInfo& info = *AllEngines()[static_cast<size_t>(i)];
    const v1::EngineDescription& engine = response.engines(i);
    EXPECT_EQ(engine.name(), info.name);
    EXPECT_EQ(engine.summary(), info.summary);
    EXPECT_EQ(engine.persistent(), info.persistent);
    EXPECT_EQ(engine.serving(), info.name == "dram");
    EXPECT_EQ(static_cast<size_t>(engine.options_size()), info.options.size());
  }
}

TEST_F(AdminServiceTest, CheckReportsProblems) {
  v1::CheckResponse response;
  ASSERT_TRUE(daemon_.admin().Check(&context_, {}, &response).ok());
  EXPECT_TRUE(response.sound());
  faults_->reads = Outcome::kDataLoss;
  grpc::ClientContext context;
  ASSERT_TRUE(daemon_.admin().Check(&context, {}, &response).ok());
  EXPECT_FALSE(response.sound());
  EXPECT_EQ(response.problem_count(), 1);
  EXPECT_EQ(response.problems(0), "leaf 7: checksum");
}

// A check that blocks until Finish.
class BlockedCheck {
 public:
  explicit BlockedCheck(TestDaemon& daemon, Faults& faults) {
    faults.on_check = [this] {
      if (!blocked_.exchange(true)) {
        begun_.set_value();
        go_on_.get_future().wait();
      }
    };
    SetDeadline(context_);
    call_ = std::async(std::launch::async, [this, &daemon] {
      v1::CheckResponse response;
      return daemon.admin().Check(&context_, {}, &response);
    });
    begun_.get_future().wait();
  }

  void Cancel() { context_.TryCancel(); }
  void Finish() { go_on_.set_value(); }
  grpc::Status End() { return call_.get(); }

 private:
  std::atomic<bool> blocked_{false};
  std::promise<void> begun_;
  std::promise<void> go_on_;
  grpc::ClientContext context_;
  std::future<grpc::Status> call_;
};

TEST_F(AdminServiceTest, OneCheckRunsAndOneIsQueued) {
  BlockedCheck first(daemon_, *faults_);
  std::vector<std::future<grpc::Status>> more;
  for (int i = 0; i < 3; ++i) {
    more.push_back(std::async(std::launch::async, [this] {
      grpc::ClientContext context;
      SetDeadline(context);
      v1::CheckResponse response;
      return daemon_.admin().Check(&context, {}, &response);
    }));
  }
  int refused = 0;
  while (refused < 2) {
    for (auto& call : more) {
      if (!call.valid() ||
          call.wait_for(std::chrono::milliseconds(1)) == std::future_status::timeout)
        continue;
      const grpc::Status status = call.get();
      EXPECT_EQ(CodeAndReason(status), "RESOURCE_EXHAUSTED BUSY");
      EXPECT_GE(DetailsOf(status).retry.retry_delay().seconds(), 1);
      ++refused;
    }
  }
  first.Finish();
  EXPECT_TRUE(first.End().ok());
  for (auto& call : more) {
    EXPECT_TRUE(!call.valid() || call.get().ok());
  }
}

TEST_F(AdminServiceTest, ACheckDelaysNoOtherCall) {
  BlockedCheck check(daemon_, *faults_);
  v1::StatusResponse status;
  EXPECT_TRUE(daemon_.admin().Status(&context_, {}, &status).ok());
  v1::StatsResponse stats;
  grpc::ClientContext context;
  EXPECT_TRUE(daemon_.admin().Stats(&context, {}, &stats).ok());
  check.Finish();
  EXPECT_TRUE(check.End().ok());
}

TEST_F(AdminServiceTest, ACheckEndsWhenItsCallIsCancelled) {
  BlockedCheck check(daemon_, *faults_);
  check.Cancel();
  EXPECT_EQ(check.End().error_code(), grpc::StatusCode::CANCELLED);
  check.Finish();
  // The thread is free soon: the rest of a cancelled check is skipped.
  faults_->on_check = nullptr;
  grpc::Status next;
  for (int i = 0; i < 500; ++i) {
    grpc::ClientContext context;
    v1::CheckResponse response;
    next = daemon_.admin().Check(&context, {}, &response);
    if (next.ok()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(next.ok()) << next.error_message();
}

// Each open stream of reflection occupies a thread, so their number is limited.
TEST_F(AdminServiceTest, OpenStreamsOfReflectionDelayNoOtherCall) {
  constexpr int kStreams = 100;
  grpc::GenericStub stub(daemon_.admin_channel());
  grpc::CompletionQueue queue;
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::GenericClientAsyncReaderWriter>> streams;
  void* tag = nullptr;
  bool ok = false;
  for (int i = 0; i < kStreams; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    SetDeadline(*contexts.back());
    streams.push_back(
        stub.PrepareCall(contexts.back().get(),
                         "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue));
    streams.back()->StartCall(&queue);
    queue.Next(&tag, &ok);
  }
  v1::StatusResponse status;
  EXPECT_TRUE(daemon_.admin().Status(&context_, {}, &status).ok());
  EXPECT_EQ(HealthOf(daemon_.admin_channel()), "SERVING");
  for (int i = 0; i < kStreams; ++i) {
    grpc::Status end;
    contexts[i]->TryCancel();
    streams[i]->Finish(&end, &queue);
    queue.Next(&tag, &ok);
  }
}

void ExpectNotServed(const grpc::Status& status, const std::string& call) {
  EXPECT_EQ(CodeAndReason(status), "UNIMPLEMENTED NOT_SERVED");
  EXPECT_THAT(status.error_message(), HasSubstr("lodgekv.v1.AdminService." + call));
  EXPECT_EQ(DetailsOf(status).info.metadata().at("call"), "lodgekv.v1.AdminService." + call);
}

TEST_F(AdminServiceTest, AnUnimplementedCallIsRefusedByName) {
  grpc::ClientContext delete_range;
  v1::DeleteRangeResponse deleted;
  ExpectNotServed(daemon_.admin().DeleteRange(&delete_range, {}, &deleted), "DeleteRange");
  grpc::ClientContext checksum;
  v1::ChecksumResponse sum;
  ExpectNotServed(daemon_.admin().Checksum(&checksum, {}, &sum), "Checksum");
  grpc::ClientContext apply;
  v1::ApplyBatchResponse applied;
  ExpectNotServed(daemon_.admin().ApplyBatch(&apply, {}, &applied), "ApplyBatch");
  grpc::ClientContext backup;
  const auto reader = daemon_.admin().Backup(&backup, v1::BackupRequest());
  v1::BackupResponse part;
  EXPECT_FALSE(reader->Read(&part));
  ExpectNotServed(reader->Finish(), "Backup");
}

TEST_F(AdminServiceTest, ReflectionIsOnBothPorts) {
  EXPECT_THAT(ListServices(daemon_.data_channel()), HasSubstr("lodgekv.v1.KvService"));
  EXPECT_THAT(ListServices(daemon_.admin_channel()), HasSubstr("lodgekv.v1.AdminService"));
}

}  // namespace
}  // namespace lodgekv::server::testing
