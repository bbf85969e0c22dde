// From listening to a clean shutdown, and every failure on the way.
#include "server/lifecycle.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "server/base/log.h"
#include "server/testing/gate.h"
#include "server/testing/test_daemon.h"

namespace lodgekv::server::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A store whose recovery goes on in the background until the test says how it ended.
struct RecoveringStore {
  RecoveringStore() {
    auto faults = std::make_shared<Faults>();
    faults->recovery = [] { return RecoveryState{.finished = false}; };
    hooks = HooksOf(faults);
    hooks.open_store = [this, open = hooks.open_store](const StoreOptions& options) {
      end = options.on_recovery_end;
      return open(options);
    };
  }

  DaemonHooks hooks;
  RecoveryEnd end;
};

TEST(LifecycleTest, LogsHowRecoveryInTheBackgroundEnded) {
  RecoveringStore store;
  ::testing::internal::CaptureStderr();
  Daemon daemon(TestConfig(), store.hooks);
  ASSERT_TRUE(daemon.Listen().ok());
  ASSERT_TRUE(daemon.OpenStore().ok());
  store.end({.report = RecoveryReport{.keys = 9}});
  store.end({.error = absl::DataLossError("leaf 7")});
  FlushLog();
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, AllOf(HasSubstr("continues in the background"),
                         HasSubstr("recovery in the background finished"), HasSubstr("keys=9"),
                         HasSubstr("DATA_LOSS: leaf 7")));
}

TEST(LifecycleTest, HealthSaysWhenNothingOfARecoveryIsLeft) {
  RecoveringStore store;
  Config config = TestConfig();
  config.health_listen = "127.0.0.1:0";
  Daemon daemon(config, store.hooks);
  ASSERT_TRUE(daemon.Listen().ok());
  const auto health =
      grpc::CreateChannel(daemon.health_address(), grpc::InsecureChannelCredentials());
  ASSERT_TRUE(daemon.OpenStore().ok());
  EXPECT_EQ(HealthOf(health), "SERVING");
  EXPECT_EQ(HealthOf(health, "lodgekv.recovery"), "NOT_SERVING");
  store.end({.error = absl::DataLossError("leaf 7")});
  EXPECT_EQ(HealthOf(health, "lodgekv.recovery"), "NOT_SERVING");
  store.end({});
  EXPECT_EQ(HealthOf(health, "lodgekv.recovery"), "SERVING");
}

TEST(LifecycleTest, TheHealthPortServesOnlyHealth) {
  Config config = TestConfig();
  config.health_listen = "127.0.0.1:0";
  Daemon daemon(config, HooksOf(std::make_shared<Faults>()));
  ASSERT_TRUE(daemon.Listen().ok());
  const auto health =
      grpc::CreateChannel(daemon.health_address(), grpc::InsecureChannelCredentials());
  EXPECT_EQ(HealthOf(health), "NOT_SERVING");
  ASSERT_TRUE(daemon.OpenStore().ok());
  EXPECT_EQ(HealthOf(health), "SERVING");
  EXPECT_EQ(HealthOf(health, "lodgekv.v1.KvService"), "SERVING");
  grpc::ClientContext context;
  SetDeadline(context);
  v1::GetRequest get;
  get.set_key("k");
  v1::GetResponse got;
  const grpc::Status status = v1::KvService::NewStub(health)->Get(&context, get, &got);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(ListServices(health), "UNIMPLEMENTED");
}

// An open stream of reflection, which occupies a thread of the server.
struct ReflectionStream {
  explicit ReflectionStream(grpc::GenericStub& stub) {
    SetDeadline(context);
    call = stub.PrepareCall(
        &context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
    call->StartCall(nullptr);
    EXPECT_TRUE(Next());
    // ServerReflectionRequest: field 7, list_services, an empty string.
    const grpc::Slice request(std::string("\x3a\x00", 2));
    call->Write(grpc::ByteBuffer(&request, 1), nullptr);
    (void)Next();
    call->Read(&answer, nullptr);
    answered = Next();
  }
  ~ReflectionStream() {
    context.TryCancel();
    (void)End();
  }

  grpc::StatusCode End() {
    if (ended) return status.error_code();
    ended = true;
    call->Finish(&status, nullptr);
    (void)Next();
    return status.error_code();
  }
  bool Next() {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  }

  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call;
  grpc::ByteBuffer answer;
  grpc::Status status;
  bool answered = false;
  bool ended = false;
};

TEST(LifecycleTest, OpenStreamsOfReflectionUseABoundedNumberOfThreads) {
  TestDaemon daemon;
  grpc::GenericStub stub(daemon.data_channel());
  std::vector<std::unique_ptr<ReflectionStream>> streams;
  size_t answered = 0;
  for (int i = 0; i < 80; ++i) {
    streams.push_back(std::make_unique<ReflectionStream>(stub));
    if (streams.back()->answered) {
      ++answered;
    } else {
      EXPECT_EQ(streams.back()->End(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    }
  }
  EXPECT_GT(answered, 10);
  EXPECT_LT(answered, 64);
  EXPECT_TRUE(daemon.Put("k", "v").ok());
}

TEST(LifecycleTest, AnswersWhileItRecoversAndServesAfterwards) {
  Gate gate;
  auto faults = std::make_shared<Faults>();
  DaemonHooks hooks;
  hooks.open_store = [&](const StoreOptions& options) {
    options.progress("leaf chain", 25, 100);
    gate.Pass();
    return OpenFakeStore(options, faults);
  };
  Config config = TestConfig();
  config.metrics_listen = "127.0.0.1:0";
  Daemon daemon(config, hooks);
  ASSERT_TRUE(daemon.Listen().ok());
  std::thread opener([&] { EXPECT_TRUE(daemon.OpenStore().ok()); });
  gate.AwaitArrival();

  const auto data = grpc::CreateChannel(daemon.data_address(), grpc::InsecureChannelCredentials());
  const auto admin =
      grpc::CreateChannel(daemon.admin_address(), grpc::InsecureChannelCredentials());
  const auto kv = v1::KvService::NewStub(data);
  const auto operators = v1::AdminService::NewStub(admin);
  EXPECT_EQ(HealthOf(data), "NOT_SERVING");
  EXPECT_EQ(HealthOf(admin), "NOT_SERVING");
  EXPECT_THAT(Scrape(daemon.metrics_address()),
              HasSubstr("lodgekv_state{state=\"recovering\"} 1\n"));
  v1::GetRequest get;
  get.set_key("k");
  v1::GetResponse got;
  {
    grpc::ClientContext context;
    SetDeadline(context);
    const grpc::Status status = kv->Get(&context, get, &got);
    EXPECT_EQ(CodeAndReason(status), "UNAVAILABLE RECOVERING");
    EXPECT_TRUE(DetailsOf(status).has_retry);
  }
  {
    grpc::ClientContext context;
    v1::StatusResponse response;
    ASSERT_TRUE(operators->Status(&context, {}, &response).ok());
    EXPECT_EQ(response.state(), v1::SERVER_STATE_RECOVERING);
    EXPECT_EQ(response.recovery_progress().phase(), "leaf chain");
    EXPECT_EQ(response.recovery_progress().done(), 25);
    EXPECT_EQ(response.recovery_progress().total(), 100);
  }
  {
    grpc::ClientContext context;
    v1::StatsResponse response;
    EXPECT_EQ(CodeAndReason(operators->Stats(&context, {}, &response)), "UNAVAILABLE RECOVERING");
  }

  gate.Open();
  opener.join();
  EXPECT_EQ(HealthOf(data), "SERVING");
  EXPECT_EQ(HealthOf(admin), "SERVING");
  grpc::ClientContext context;
  SetDeadline(context);
  EXPECT_TRUE(kv->Get(&context, get, &got).ok());
  EXPECT_TRUE(daemon.Stop().ok());
  EXPECT_TRUE(faults->closed);
}

TEST(LifecycleTest, DrainsWhatIsInFlightThenClosesTheStore) {
  auto faults = std::make_shared<Faults>();
  faults->long_fences = true;
  Gate gate;
  faults->on_write = [&](size_t) { gate.Pass(); };
  TestDaemon daemon(TestConfig(), HooksOf(faults));
  std::thread writer([&] { EXPECT_TRUE(daemon.Put("k", "v").ok()); });
  gate.AwaitArrival();
  std::thread stopper([&] { EXPECT_TRUE(daemon.daemon().Stop().ok()); });
  while (daemon.daemon().state().phase() != Phase::kDraining) std::this_thread::yield();
  EXPECT_EQ(HealthOf(daemon.admin_channel()), "NOT_SERVING");
  EXPECT_EQ(daemon.ValueOf("k"), "UNAVAILABLE DRAINING");
  EXPECT_FALSE(faults->closed);
  gate.Open();
  writer.join();
  stopper.join();
  EXPECT_TRUE(faults->closed);
}

TEST(LifecycleTest, ServesDuringTheDrainDelayWhileHealthIsNotServing) {
  auto faults = std::make_shared<Faults>();
  Config config = TestConfig();
  config.drain_delay_ms = 400;
  TestDaemon daemon(config, HooksOf(faults));
  std::thread stopper([&] { EXPECT_TRUE(daemon.daemon().Stop().ok()); });
  while (HealthOf(daemon.data_channel()) == "SERVING") std::this_thread::yield();
  EXPECT_EQ(daemon.ValueOf("k"), "(none)");
  stopper.join();
}

TEST(LifecycleTest, CancelsWhatOutlastsTheGracePeriod) {
  Config config = TestConfig();
  config.drain_grace_ms = 100;
  auto faults = std::make_shared<Faults>();
  TestDaemon daemon(config, HooksOf(faults));
  const std::string value(kMiB, 'v');
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(daemon.Put("key" + std::to_string(i), value).ok());
  grpc::ClientContext context;
  const auto reader = daemon.kv().Scan(&context, v1::ScanRequest());
  v1::ScanResponse page;
  ASSERT_TRUE(reader->Read(&page));
  EXPECT_TRUE(daemon.daemon().Stop().ok());
  EXPECT_TRUE(faults->closed);
  while (reader->Read(&page)) {
  }
  EXPECT_FALSE(reader->Finish().ok());
}

TEST(LifecycleTest, AReloadAppliesToTheNextRequestAnInvalidOneNever) {
  TestDaemon daemon;
  for (const char* key : {"a", "b", "c"}) ASSERT_TRUE(daemon.Put(key, "v").ok());
  const ServerState& state = daemon.daemon().state();
  const auto pages = [&] {
    // An earlier call counts until the server knows that its answer was delivered.
    while (state.admission().operations() != 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::vector<v1::ScanResponse> answers;
    EXPECT_TRUE(daemon.Scan({}, &answers).ok());
    return answers.size();
  };
  EXPECT_EQ(pages(), 1);
  ConfigSources sources;
  sources.flags = {{FindConfigField("engine"), "dram"},
                   {FindConfigField("scan_page_items"), "1"},
                   {FindConfigField("max_inflight_operations"), "2"},
                   {FindConfigField("max_key_size"), "64"}};
  daemon.daemon().Reload(sources);
  EXPECT_EQ(pages(), 3);
  EXPECT_EQ(state.admission().max_operations(), 2);
  EXPECT_EQ(state.limits().max_key_size, kMaxKeySize.default_value) << "needs a restart";

  sources.flags = {{FindConfigField("engine"), "dram"},
                   {FindConfigField("scan_page_items"), "2"},
                   {FindConfigField("log_level"), "loud"}};
  daemon.daemon().Reload(sources);
  EXPECT_EQ(pages(), 3);
}

TEST(LifecycleTest, ReloadsWhileRequestsAreServed) {
  TestDaemon daemon;
  for (const char* key : {"a", "b", "c"}) ASSERT_TRUE(daemon.Put(key, "v").ok());
  std::atomic<bool> done{false};
  std::thread reloader([&] {
    for (int i = 0; !done; ++i) {
      ConfigSources sources;
      sources.flags = {{FindConfigField("engine"), "dram"},
                       {FindConfigField("scan_page_items"), i % 2 == 0 ? "1" : "3"}};
      daemon.daemon().Reload(sources);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  for (int i = 0; i < 100; ++i) {
    std::vector<v1::ScanResponse> pages;
    EXPECT_TRUE(daemon.Scan({}, &pages).ok());
    EXPECT_THAT(pages.size(), ::testing::AnyOf(1, 3));
    EXPECT_EQ(daemon.ValueOf("b"), "v");
  }
  done = true;
  reloader.join();
}

TEST(LifecycleTest, AFailedCloseIsReported) {
  auto faults = std::make_shared<Faults>();
  faults->close_status = absl::DataLossError("no clean flag");
  TestDaemon daemon(TestConfig(), HooksOf(faults));
  EXPECT_EQ(daemon.daemon().Stop(), absl::DataLossError("no clean flag"));
}

TEST(LifecycleTest, AStoreThatCannotBeOpenedFailsTheStart) {
  DaemonHooks hooks;
  hooks.open_store = [](const StoreOptions&) {
    return absl::FailedPreconditionError("pool /x is of engine sstree");
  };
  Daemon daemon(TestConfig(), hooks);
  ASSERT_TRUE(daemon.Listen().ok());
  EXPECT_EQ(daemon.OpenStore(), absl::FailedPreconditionError("pool /x is of engine sstree"));
}

TEST(LifecycleTest, APortInUseNamesTheAddressAndTouchesNoPool) {
  TestDaemon first;
  const auto try_listen = [](const Config& config) {
    DaemonHooks hooks;
    hooks.open_store = [](const StoreOptions&) -> absl::StatusOr<std::unique_ptr<Store>> {
      ADD_FAILURE() << "the pool was touched";
      return absl::InternalError("");
    };
    Daemon second(config, hooks);
    return std::string(second.Listen().message());
  };
  Config config = TestConfig();
  config.listen = first.daemon().data_address();
  EXPECT_THAT(try_listen(config), AllOf(HasSubstr(config.listen), HasSubstr("(listen)"),
                                        HasSubstr("another process is using it")));
  config = TestConfig();
  config.admin_listen = first.daemon().data_address();
  EXPECT_THAT(try_listen(config),
              AllOf(HasSubstr(config.admin_listen), HasSubstr("(admin_listen)")));
  config = TestConfig();
  config.metrics_listen = first.daemon().data_address();
  EXPECT_THAT(try_listen(config),
              AllOf(HasSubstr(config.metrics_listen), HasSubstr("(metrics_listen)")));
  config = TestConfig();
  config.allow_plaintext = true;
  config.listen = "192.0.2.1:7411";
  EXPECT_THAT(try_listen(config), HasSubstr("no network interface of this machine"));
}

TEST(LifecycleTest, AUnixSocketInUseIsLeftToItsOwner) {
  Config config = TestConfig();
  config.listen =
      "unix:" + ::testing::TempDir() + "lodgekv_lifecycle_" + std::to_string(getpid()) + ".sock";
  TestDaemon first(config);
  ASSERT_TRUE(first.Put("k", "v").ok());
  {
    Daemon second(config);
    EXPECT_THAT(std::string(second.Listen().message()),
                AllOf(HasSubstr(config.listen), HasSubstr("another process is using it")));
  }
  EXPECT_EQ(first.ValueOf("k"), "v");
  config.listen = "unix:/no/such/folder/socket";
  Daemon nowhere(config);
  EXPECT_THAT(std::string(nowhere.Listen().message()), HasSubstr("not writable"));
}

TEST(LifecycleTest, TheStoreIsOpenedAsConfigured) {
  StoreOptions seen;
  DaemonHooks hooks;
  hooks.open_store = [&](const StoreOptions& options) {
    seen = options;
    return OpenFakeStore(options, std::make_shared<Faults>());
  };
  Config config = TestConfig();
  config.pool = "/some/pool";
  config.pool_size = 64 * kMiB;
  config.key_format = "fixed64";
  config.durability = "process";
  config.allow_volatile_medium = true;
  config.recovery_threads = 3;
  TestDaemon daemon(config, hooks);
  EXPECT_EQ(seen.engine, "dram");
  EXPECT_EQ(seen.pool_path, "") << "a volatile engine takes no pool";
  EXPECT_EQ(seen.pool_size_bytes, 64 * kMiB);
  EXPECT_EQ(seen.key_format, KeyFormat::kFixed64);
  EXPECT_TRUE(seen.process_durability);
  EXPECT_TRUE(seen.allow_volatile_medium);
  EXPECT_EQ(seen.recovery_threads, 3);
  EXPECT_TRUE(seen.on_medium_failure);
}

TEST(LifecycleDeathTest, AFailedMediumEndsTheProcess) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        DaemonHooks hooks;
        hooks.open_store =
            [](const StoreOptions& options) -> absl::StatusOr<std::unique_ptr<Store>> {
          options.on_medium_failure("fdatasync: Input/output error");
          return absl::InternalError("the daemon went on");
        };
        Daemon daemon(TestConfig(), hooks);
        (void)daemon.Listen();
        (void)daemon.OpenStore();
      },
      ::testing::ExitedWithCode(1), "critical.*the medium failed.*fdatasync");
}

}  // namespace
}  // namespace lodgekv::server::testing
