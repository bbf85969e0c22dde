#include "server/lifecycle.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/resource_quota.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include "index/registry.h"
#include "server/config_values.h"
#include "server/listen_error.h"
#include "server/log.h"
#include "server/reload.h"
#include "server/version.h"

namespace lodgekv::server {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kInFlightPoll{2};
constexpr milliseconds kProgressInterval{1'000};
// When nothing is in flight, what still hangs on the server are watchers of its health.
constexpr milliseconds kWatcherGrace{100};
// What serves reflection, whose every open stream holds one. Beyond them such a stream is
// RESOURCE_EXHAUSTED; all else is served by other threads.
constexpr int kMaxSynchronousThreads = 16;
constexpr uint64_t kHealthStreamsPerConnection = 8;

[[noreturn]] void DieOfMedium(const std::string& what) {
  Log(LogLevel::kCritical, "the medium failed: nothing more is acknowledged, the daemon ends",
      {{"what", what}});
  FlushLog();
  // No destructor may touch the pool any more, above all not mark it clean.
  std::_Exit(EXIT_FAILURE);
}

std::string WithPort(const std::string& address, int port) {
  const size_t colon = address.rfind(':');
  if (address.rfind("unix:", 0) == 0 || colon == std::string::npos) return address;
  return fmt::format("{}:{}", address.substr(0, colon), port);
}

// The reflection library puts itself into every builder of the process.
class NoReflection final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    plugins->clear();
  }
};

void SetCommonOptions(grpc::ServerBuilder& builder, const Config& config,
                      uint64_t streams_per_connection) {
  // Without this a second daemon on the same port would share it silently.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             static_cast<int>(streams_per_connection));
  builder.SetResourceQuota(grpc::ResourceQuota().SetMaxThreads(kMaxSynchronousThreads));
  builder.SetMaxReceiveMessageSize(
      static_cast<int>(std::min<uint64_t>(config.RequestLimits().MaxMessageSize(), INT32_MAX)));
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
}

std::unique_ptr<grpc::Server> StartServer(
    grpc::ServerBuilder& builder, const std::string& address,
    const std::shared_ptr<grpc::ServerCredentials>& credentials, std::string* bound) {
  if (UnixSocketInUse(address)) return nullptr;
  int port = 0;
  builder.AddListeningPort(address, credentials, &port);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) return nullptr;
  *bound = WithPort(address, port);
  return server;
}

// A connection that asks nothing holds a thread, and for no longer than the timeout.
std::vector<std::string> MetricsOptions(const std::string& address) {
  return {"listening_ports", address, "num_threads", "4", "request_timeout_ms", "2000"};
}

size_t PollerCount(const Config& config) {
  if (config.threads != 0) return config.threads;
  return std::max(1U, std::thread::hardware_concurrency());
}

// Logs now and then how far recovery is, and keeps it for Status.
class ProgressReporter {
 public:
  explicit ProgressReporter(ServerState& state) : state_(state) {}

  void operator()(std::string_view phase, uint64_t done, uint64_t total) {
    state_.SetProgress({std::string(phase), done, total});
    const auto now = std::chrono::steady_clock::now();
    if (phase == phase_ && now - logged_ < kProgressInterval) return;
    phase_ = phase;
    logged_ = now;
    Log(LogLevel::kInfo, "recovering", {{"phase", phase}, {"done", done}, {"total", total}});
  }

 private:
  ServerState& state_;
  std::string phase_;
  std::chrono::steady_clock::time_point logged_;
};

void LogStore(const StoreInfo& info) {
  const LogLevel level = info.medium_class == "volatile" || info.durability == "process"
                             ? LogLevel::kWarning
                             : LogLevel::kInfo;
  Log(level, info.created ? "created" : "recovered",
      {{"engine", info.engine},
       {"key_format", info.key_format},
       {"pool", info.pool_path},
       {"pool_id", info.pool_id},
       {"medium_class", info.medium_class},
       {"durability", info.durability},
       {"survives", info.durability_detail}});
  if (info.created) return;
  const RecoveryReport& report = info.recovery;
  Log(LogLevel::kInfo, "recovery report",
      {{"clean", report.clean ? "yes" : "no"},
       {"keys", report.keys},
       {"leaves_scanned", report.leaves_scanned},
       {"log_entries_replayed", report.log_entries_replayed},
       {"log_entries_dropped", report.log_entries_dropped},
       {"repairs", report.repairs},
       {"bytes_reclaimed", report.bytes_reclaimed},
       {"threads", report.threads},
       {"milliseconds", fmt::format("{:.1f}", report.milliseconds)}});
}

void LogJournal(const Store& store, const std::string& wanted_path) {
  const StoreInfo& info = store.info();
  if (info.journal_groups_replayed > 0) {
    Log(LogLevel::kInfo, "replayed the journal",
        {{"groups", info.journal_groups_replayed},
         {"lines", info.journal_lines_replayed},
         {"milliseconds", info.journal_replay_ms}});
  }
  if (const std::optional<JournalUse> use = store.GetJournalUse()) {
    Log(LogLevel::kInfo, "journal",
        {{"path", info.journal_path}, {"size", FormatSize(use->size_bytes)}});
  } else if (!wanted_path.empty()) {
    Log(LogLevel::kWarning,
        "journal_path is not used: only a pool on an ordinary file with durability medium has a "
        "journal",
        {{"journal_path", wanted_path},
         {"medium_class", info.medium_class},
         {"durability", info.durability}});
  }
}

void LogReload(const ReloadPlan& plan) {
  Log(LogLevel::kInfo, "configuration reloaded",
      {{"changed",
        plan.changed.empty() ? "nothing" : fmt::to_string(fmt::join(plan.changed, ", "))}});
  if (plan.needs_restart.empty()) return;
  Log(LogLevel::kWarning, "fields that differ and need a restart were left as they were",
      {{"fields", fmt::to_string(fmt::join(plan.needs_restart, ", "))}});
}

}  // namespace

Daemon::Daemon(const Config& config, DaemonHooks hooks)
    : hooks_(std::move(hooks)),
      state_(config, hooks_.clock != nullptr ? *hooks_.clock : system_clock_),
      admin_service_(state_) {}

Daemon::~Daemon() {
  const absl::Status status = Stop();
  if (!status.ok()) Log(LogLevel::kError, "close failed", {{"what", status.ToString()}});
}

absl::Status Daemon::Listen() {
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  absl::Status status = StartTls();
  if (status.ok()) status = ListenData();
  if (status.ok()) status = ListenAdmin();
  if (status.ok()) status = ListenMetrics();
  if (status.ok()) status = ListenHealth();
  if (!status.ok()) return status;
  health_.Set(v1::AdminService::service_full_name(), true);
  Log(LogLevel::kInfo, "listening",
      {{"data", data_address_},
       {"admin", admin_address_},
       {"metrics", metrics_address_.empty() ? "off" : metrics_address_},
       {"health", health_address_.empty() ? "off" : health_address_},
       {"transport", Transport()},
       {"version", kVersion}});
  return absl::OkStatus();
}

absl::Status Daemon::StartTls() {
  const Config& config = state_.config();
  if (!config.tls()) return absl::OkStatus();
  auto tls = TlsWatcher::Start(TlsFiles::Of(config),
                               [this] { return milliseconds(state_.config().tls_refresh_ms); });
  if (!tls.ok()) return tls.status();
  tls_ = *std::move(tls);
  return absl::OkStatus();
}

std::shared_ptr<grpc::ServerCredentials> Daemon::Credentials() const {
  return tls_ != nullptr ? tls_->credentials() : grpc::InsecureServerCredentials();
}

std::string_view Daemon::Transport() const {
  if (tls_ == nullptr) return "plaintext";
  return tls_->needs_client_certificate() ? "mutual TLS" : "TLS";
}

absl::Status Daemon::ListenData() {
  const Config& config = state_.config();
  grpc::ServerBuilder builder;
  SetCommonOptions(builder, config, config.max_streams_per_connection);
  builder.RegisterService(&kv_service_);
  builder.RegisterService(&data_health_);
  const auto add_poller = [&](std::vector<Method> methods) {
    pollers_.push_back(std::make_unique<Poller>(state_, kv_service_, builder.AddCompletionQueue(),
                                                std::move(methods)));
  };
  // Apart from each other: no read waits for a write's sync, nor any of both for the page of a
  // scan.
  for (size_t i = 0; i < PollerCount(config); ++i) {
    add_poller({Method::kGet, Method::kBatchGet});
    add_poller({Method::kPut, Method::kDelete, Method::kBatchWrite});
  }
  for (size_t i = 0; i < config.scan_threads; ++i) add_poller({Method::kScan});
  data_server_ = StartServer(builder, config.listen, Credentials(), &data_address_);
  if (data_server_ == nullptr) return CannotListen("listen", config.listen);
  for (const auto& poller : pollers_) poller->Start();
  return absl::OkStatus();
}

absl::Status Daemon::ListenAdmin() {
  const Config& config = state_.config();
  grpc::ServerBuilder builder;
  SetCommonOptions(builder, config, config.max_streams_per_connection);
  builder.RegisterService(&admin_service_);
  builder.RegisterService(&admin_health_);
  admin_server_ = StartServer(builder, config.admin_listen, Credentials(), &admin_address_);
  if (admin_server_ == nullptr) return CannotListen("admin_listen", config.admin_listen);
  return absl::OkStatus();
}

// Health alone, for who cannot speak TLS.
absl::Status Daemon::ListenHealth() {
  const Config& config = state_.config();
  if (config.health_listen == "off") return absl::OkStatus();
  grpc::ServerBuilder builder;
  SetCommonOptions(builder, config, kHealthStreamsPerConnection);
  builder.SetOption(std::make_unique<NoReflection>());
  builder.RegisterService(&probe_health_);
  builder.RegisterCallbackGenericService(&no_calls_);
  health_server_ = StartServer(builder, config.health_listen, grpc::InsecureServerCredentials(),
                               &health_address_);
  if (health_server_ == nullptr) return CannotListen("health_listen", config.health_listen);
  return absl::OkStatus();
}

absl::Status Daemon::ListenMetrics() {
  const std::string& address = state_.config().metrics_listen;
  if (address == "off") return absl::OkStatus();
  std::vector<const RpcRecorder*> recorders;
  for (const auto& poller : pollers_) recorders.push_back(&poller->recorder());
  metrics_ = std::make_shared<Metrics>(state_, std::move(recorders), tls_.get());
  try {
    exposer_ = std::make_unique<prometheus::Exposer>(MetricsOptions(address));
  } catch (const std::exception&) {
    return CannotListen("metrics_listen", address);
  }
  exposer_->RegisterCollectable(metrics_);
  const std::vector<int> ports = exposer_->GetListeningPorts();
  metrics_address_ = ports.empty() ? address : WithPort(address, ports.front());
  return absl::OkStatus();
}

StoreOptions Daemon::MakeStoreOptions() {
  const Config& config = state_.config();
  StoreOptions options;
  options.engine = config.engine;
  options.pool_path = config.pool;
  options.pool_size_bytes = config.pool_size;
  options.key_format = config.key_format == "fixed64" ? KeyFormat::kFixed64 : KeyFormat::kBytes;
  options.inline_pairs = config.inline_pairs;
  options.process_durability = config.durability == "process";
  options.allow_volatile_medium = config.allow_volatile_medium;
  options.journal_path = config.journal_path;
  options.journal_size_bytes = config.journal_size;
  options.checkpoint_bytes_per_second = config.checkpoint_rate;
  options.engine_options = config.engine_options;
  options.recovery_threads = static_cast<unsigned>(config.recovery_threads);
  options.progress = ProgressReporter(state_);
  options.on_medium_failure = hooks_.on_medium_failure ? hooks_.on_medium_failure : &DieOfMedium;
  const auto engine = FindEngine(config.engine);
  if (engine.ok() && !(*engine)->persistent && !config.pool.empty()) {
    Log(LogLevel::kWarning, "the engine is volatile and takes no pool; the one given is left alone",
        {{"engine", config.engine}, {"pool", config.pool}});
    options.pool_path.clear();
  }
  return options;
}

absl::Status Daemon::OpenStore() {
  absl::StatusOr<std::unique_ptr<Store>> opened = hooks_.open_store(MakeStoreOptions());
  if (!opened.ok()) return opened.status();
  store_ = *std::move(opened);
  LogStore(store_->info());
  LogJournal(*store_, state_.config().journal_path);
  state_.Serve(*store_);
  health_.Set(MediumHealthName(store_->info().medium_class), true);
  health_.Set(v1::KvService::service_full_name(), true);
  health_.Set("", true);
  Log(LogLevel::kInfo, "serving", {{"data", data_address_}});
  return absl::OkStatus();
}

void Daemon::Reload(const ConfigSources& sources) {
  if (tls_ != nullptr) tls_->LookNow();
  const absl::StatusOr<ReloadPlan> plan = PlanReload(state_.config(), sources);
  if (!plan.ok()) {
    Log(LogLevel::kError, "reload refused, the configuration stays as it was",
        {{"what", std::string(plan.status().message())}});
    return;
  }
  if (!plan->changed.empty()) state_.Adopt(plan->config);
  // Under whichever of the old and the new level lets it through.
  const bool logs_now = Logs(LogLevel::kInfo);
  if (logs_now) LogReload(*plan);
  SetUpLog(plan->config.log_format, plan->config.log_level);
  if (!logs_now) LogReload(*plan);
}

// Until all that was accepted is answered, or the grace period is over.
void Daemon::AwaitInFlight() {
  const auto end = std::chrono::steady_clock::now() + milliseconds(state_.config().drain_grace_ms);
  while (state_.admission().operations() != 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(kInFlightPoll);
  }
  const uint64_t left = state_.admission().operations();
  if (left == 0) return;
  Log(LogLevel::kWarning, "the grace period is over: what is in flight is cancelled",
      {{"operations", left}, {"drain_grace", FormatDuration(state_.config().drain_grace_ms)}});
}

void Daemon::StopServers() {
  const auto soon = std::chrono::system_clock::now() + kWatcherGrace;
  if (data_server_ != nullptr) data_server_->Shutdown(soon);
  for (const auto& poller : pollers_) poller->RequestStop();
  for (const auto& poller : pollers_) poller->Join();
  if (admin_server_ != nullptr) admin_server_->Shutdown(soon);
  if (health_server_ != nullptr) health_server_->Shutdown(soon);
  exposer_.reset();
  data_server_.reset();
  // Behind the server that feeds their queues; a queue must not be asked to stop a second time.
  pollers_.clear();
  admin_server_.reset();
  health_server_.reset();
}

absl::Status Daemon::Stop() {
  if (data_server_ != nullptr && state_.phase() == Phase::kServing) {
    health_.StopServing();
    Log(LogLevel::kInfo, "draining",
        {{"in_flight_operations", state_.admission().operations()},
         {"drain_delay", FormatDuration(state_.config().drain_delay_ms)},
         {"drain_grace", FormatDuration(state_.config().drain_grace_ms)}});
    std::this_thread::sleep_for(milliseconds(state_.config().drain_delay_ms));
  }
  state_.Drain();
  AwaitInFlight();
  StopServers();
  if (store_ == nullptr) return absl::OkStatus();
  const std::unique_ptr<Store> store = std::move(store_);
  absl::Status status = store->Close();
  if (status.ok()) Log(LogLevel::kInfo, "closed clean");
  return status;
}

}  // namespace lodgekv::server
