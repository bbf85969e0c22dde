#include "server/lifecycle.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/resource_quota.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <thread>
#include <utility>

#include "base/version.h"
#include "index/key_format_name.h"
#include "index/registry.h"
#include "server/base/listen_error.h"
#include "server/base/log.h"
#include "server/config/config_values.h"
#include "server/config/reload.h"
#include "server/front_door/stream_counts.h"
#include "server/thread_supply.h"

namespace lodgekv::server {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kInFlightPoll{2};
constexpr milliseconds kProgressInterval{1'000};
// When no request is in flight the only open calls are watchers of health.
constexpr milliseconds kWatcherGrace{100};
// For reflection, each open stream of which occupies one. A stream beyond them gets
// RESOURCE_EXHAUSTED; all other calls are served by other threads.
constexpr int kMaxSynchronousThreads = 16;
// The connection of a client that pings more often, while nothing is sent to it, is closed. Half of
// the shortest interval that clients are told to use: pings do not arrive as regularly as they are
// sent.
constexpr milliseconds kLeastPingInterval{5'000};
// For calls of a connection that has reached its maximum age.
constexpr milliseconds kAgeGrace{5 * 60'000};
// gRPC's value for an unlimited duration.
constexpr int kNever = INT_MAX;

[[noreturn]] void DieOfMedium(const std::string& what) {
  Log(LogLevel::kCritical, "the medium failed: nothing more is acknowledged, the daemon ends",
      {{"what", what}});
  FlushLog();
  // No destructor may touch the pool any more, least of all mark it clean.
  std::_Exit(EXIT_FAILURE);
}

// The reflection library adds itself to every builder of the process.
class NoReflection final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    plugins->clear();
  }
};

BucketLimits OffencesOf(const Config& config) {
  return {.most = config.max_offences_per_peer,
          .refill = milliseconds(config.offence_forgiven_after_ms)};
}

ConnectionRateLimits RateOf(const Config& config) {
  const uint64_t rate = config.max_connection_rate_per_peer;
  if (rate == 0) return {};
  return {.bucket = {.most = config.max_connection_burst_per_peer,
                     .refill = DoorTime::duration(std::chrono::seconds(1)) / rate},
          .longest_wait = milliseconds(config.handshake_timeout_ms)};
}

int Milliseconds(uint64_t value_ms) {
  return value_ms == 0 ? kNever : static_cast<int>(std::min<uint64_t>(value_ms, kNever));
}

void SetConnectionOptions(grpc::ServerBuilder& builder, const Config& config) {
  const auto set = [&](const char* name, int value) { builder.AddChannelArgument(name, value); };
  set(GRPC_ARG_MAX_CONNECTION_IDLE_MS, Milliseconds(config.connection_idle_ms));
  set(GRPC_ARG_MAX_CONNECTION_AGE_MS, Milliseconds(config.connection_age_ms));
  set(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, static_cast<int>(kAgeGrace.count()));
  set(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(config.keepalive_time_ms));
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Milliseconds(config.keepalive_timeout_ms));
  set(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  set(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
      static_cast<int>(kLeastPingInterval.count()));
  set(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, Milliseconds(config.handshake_timeout_ms));
  set(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  set(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, static_cast<int>(kStreamWindow));
  set(GRPC_ARG_MAX_METADATA_SIZE, static_cast<int>(kMaxMetadataSize));
}

// gRPC 1.51 decompresses a whole message before it checks its size, so a megabyte may become a
// gigabyte before any limit of ours applies. Answers are not compressed either.
void RefuseCompression(grpc::ServerBuilder& builder) {
  for (const auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
  }
}

void SetCommonOptions(grpc::ServerBuilder& builder, const Config& config,
                      const ConnectionLimits& limits) {
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, static_cast<int>(limits.max_streams));
  SetConnectionOptions(builder, config);
  builder.SetResourceQuota(grpc::ResourceQuota().SetMaxThreads(kMaxSynchronousThreads));
  builder.SetMaxReceiveMessageSize(
      static_cast<int>(std::min<uint64_t>(limits.max_message_size, INT32_MAX)));
  RefuseCompression(builder);
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
}

// The server that was not there before; 0: none, or more than one.
intptr_t NewServerAmong(const std::vector<intptr_t>& servers, const std::vector<intptr_t>& before) {
  intptr_t found = 0;
  for (const intptr_t server : servers) {
    if (std::find(before.begin(), before.end(), server) != before.end()) continue;
    if (found != 0) return 0;
    found = server;
  }
  return found;
}

// Logs the progress of recovery from time to time, and keeps it for Status.
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

void LogReport(std::string_view message, const RecoveryReport& report) {
  Log(LogLevel::kInfo, message,
      {{"clean", report.clean ? "yes" : "no"},
       {"keys", report.keys},
       {"leaves_scanned", report.leaves_scanned},
       {"log_entries_replayed", report.log_entries_replayed},
       {"log_entries_dropped", report.log_entries_dropped},
       {"repairs", report.repairs},
       {"bytes_reclaimed", report.bytes_reclaimed},
       {"threads", report.threads},
       {"replay_threads", report.replay_threads},
       {"milliseconds", std::round(report.milliseconds * 10) / 10}});
}

// By a thread of the engine.
void LogRecoveryEnd(const RecoveryState& state) {
  if (!state.error.ok()) {
    Log(LogLevel::kError,
        "recovery in the background failed; calls that do not need what it left are still served",
        {{"what", state.error.ToString()}});
  } else if (state.report.has_value()) {
    LogReport("recovery in the background finished", *state.report);
  }
}

void LogStore(const StoreInfo& info) {
  const LogLevel level = info.medium_class == "volatile" || info.durability == "process"
                             ? LogLevel::kWarning
                             : LogLevel::kInfo;
  Log(level, info.created ? "created" : "recovered",
      {{"engine", info.engine},
       {"key_format", KeyFormatName(info.key_format)},
       {"pool", info.pool_path},
       {"pool_id", info.pool_id},
       {"medium_class", info.medium_class},
       {"durability", info.durability},
       {"survives", info.durability_detail}});
  if (info.replaced_empty_file) {
    Log(LogLevel::kWarning,
        "an empty file was at the pool's path, and a new pool was made there: if a pool was there "
        "before, its data is not in this one; pool_must_exist refuses such a start",
        {{"pool", info.pool_path}});
  }
  if (info.flushed_at_open) {
    Log(LogLevel::kInfo,
        "flushed the whole pool: it was last used with durability process, or by a daemon whose "
        "sync failed",
        {{"milliseconds", info.flush_at_open_ms}});
  }
  if (!info.created) LogReport("recovery report", info.recovery);
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

// A pool is created in the size that the medium allows, in whole units.
constexpr uint64_t kSizeSlack = kMiB;

void LogPoolSize(const StoreInfo& info, uint64_t wanted) {
  const uint64_t difference =
      wanted > info.pool_bytes ? wanted - info.pool_bytes : info.pool_bytes - wanted;
  if (info.created || wanted == 0 || info.pool_bytes == 0 || difference < kSizeSlack) return;
  Log(LogLevel::kWarning,
      "pool_size differs from the size of the pool, which cannot change: for another size, dump "
      "the pool and load it into a new one",
      {{"pool_size", FormatSize(wanted)}, {"size_of_the_pool", FormatSize(info.pool_bytes)}});
}

void LogReload(const ReloadPlan& plan) {
  Log(LogLevel::kInfo, "configuration reloaded",
      {{"changed",
        plan.changed.empty() ? "nothing" : fmt::to_string(fmt::join(plan.changed, ", "))}});
  if (plan.needs_restart.empty()) return;
  Log(LogLevel::kWarning, "changed fields that need a restart were not applied",
      {{"fields", fmt::to_string(fmt::join(plan.needs_restart, ", "))}});
}

}  // namespace

Daemon::Daemon(const Config& config, DaemonHooks hooks)
    : hooks_(std::move(hooks)),
      state_(config, hooks_.clock != nullptr ? *hooks_.clock : system_clock_),
      admin_service_(state_),
      door_(state_.connections(), DoorHooks()) {}

Daemon::~Daemon() {
  const absl::Status status = Stop();
  if (!status.ok()) Log(LogLevel::kError, "close failed", {{"what", status.ToString()}});
}

absl::Status Daemon::Listen() {
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  absl::Status status = StartTls();
  if (status.ok()) status = ListenData();
  if (status.ok()) status = ListenAdmin();
  if (status.ok()) status = ListenHealth();
  if (status.ok()) status = ListenMetrics();
  if (!status.ok()) return status;
  for (const auto& poller : pollers_) poller->Start();
  health_.Set(v1::AdminService::service_full_name(), true);
  door_.Start();
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
  auto tls = TlsWatcher::Start(config.tls_files(),
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

FrontDoor::Hooks Daemon::DoorHooks() {
  return {.max_unfinished_total = [this] { return state_.config().max_unfinished_total; },
          .on_reachable = [this](bool reachable) { SetReachable(reachable); }};
}

PortOptions Daemon::DataPort() const {
  return {.name = "data", .small = false, .tls = tls_ != nullptr, .limits = [this] {
            const Config& config = state_.config();
            return PortLimits{
                .max_connections = config.max_connections,
                .max_connections_per_peer = config.max_connections_per_peer,
                .offences = OffencesOf(config),
                .rate = RateOf(config),
                .connection = {.max_streams = config.max_streams_per_connection,
                               .max_message_size = state_.limits().MaxMessageSize(),
                               .max_unfinished_size = config.max_unfinished_size,
                               .resets_per_second = config.max_resets_per_second,
                               .invalid_bytes_per_second = config.max_invalid_size_per_second,
                               .message_timeout = milliseconds(config.message_timeout_ms)}};
          }};
}

PortOptions Daemon::SmallPort(std::string name, bool tls, uint64_t streams_per_connection) const {
  return {
      .name = std::move(name), .small = true, .tls = tls, .limits = [this, streams_per_connection] {
        const Config& config = state_.config();
        return PortLimits{
            .max_connections = kSmallPortConnections,
            .max_connections_per_peer = kSmallPortConnections,
            .offences = OffencesOf(config),
            .rate = RateOf(config),
            .connection = {.max_streams = streams_per_connection,
                           .max_message_size = kSmallPortMessageSize,
                           .max_unfinished_size = config.max_unfinished_size,
                           .resets_per_second = config.max_resets_per_second,
                           .message_timeout = milliseconds(config.message_timeout_ms)}};
      }};
}

absl::StatusOr<std::unique_ptr<grpc::Server>> Daemon::StartServer(grpc::ServerBuilder& builder,
                                                                  GrpcPort port,
                                                                  std::string* bound) {
  SetCommonOptions(builder, state_.config(), port.options.limits().connection);
  const absl::StatusOr<std::string> address = door_.Open(std::move(port.options), port.address);
  if (!address.ok())
    return ListenError(port.field, port.address, std::string(address.status().message()));
  *bound = *address;
  std::shared_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor =
      builder.experimental().AddExternalConnectionAcceptor(
          grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
          std::move(port.credentials));
  const std::vector<intptr_t> servers = ListChannelzServers();
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return ListenError(port.field, port.address, "gRPC cannot be started");
  door_.Attach(
      [acceptor](int fd) {
        grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
        connection.fd = fd;
        acceptor->HandleNewConnection(&connection);
      },
      NewServerAmong(ListChannelzServers(), servers));
  return server;
}

absl::StatusOr<std::unique_ptr<grpc::Server>> Daemon::StartSmallServer(grpc::ServerBuilder& builder,
                                                                       GrpcPort port,
                                                                       std::string* bound) {
  unused_queues_.push_back(std::make_unique<UnusedQueue>(builder));
  const SharedQueue shared(pollers_.front()->queue());
  return StartServer(builder, std::move(port), bound);
}

absl::Status Daemon::ListenData() {
  const Config& config = state_.config();
  grpc::ServerBuilder builder;
  builder.RegisterService(&kv_service_);
  builder.RegisterService(&data_health_);
  long_reads_ = std::make_unique<WorkThreads>(state_, "lodgekv-scan", config.scan_threads,
                                              static_cast<int>(config.scan_nice));
  long_writes_ = std::make_unique<WorkThreads>(state_, "lodgekv-write", config.write_threads);
  const LongWork long_work{.reads = *long_reads_, .writes = *long_writes_};
  for (size_t i = 0; i < Pollers(config); ++i) {
    pollers_.push_back(
        std::make_unique<Poller>(state_, kv_service_, long_work, builder.AddCompletionQueue()));
  }
  auto server =
      StartServer(builder, {"listen", config.listen, DataPort(), Credentials()}, &data_address_);
  if (!server.ok()) return server.status();
  data_server_ = *std::move(server);
  pollers_.front()->AlsoServe(data_health_);
  return absl::OkStatus();
}

absl::Status Daemon::ListenAdmin() {
  const Config& config = state_.config();
  grpc::ServerBuilder builder;
  builder.RegisterService(&admin_service_);
  builder.RegisterService(&admin_health_);
  admin_unknown_.RegisterAt(builder);
  auto server = StartSmallServer(
      builder,
      {"admin_listen", config.admin_listen,
       SmallPort("admin", tls_ != nullptr, kAdminStreamsPerConnection), Credentials()},
      &admin_address_);
  if (!server.ok()) return server.status();
  admin_server_ = *std::move(server);
  for (QueuedService* service :
       std::initializer_list<QueuedService*>{&admin_service_, &admin_health_, &admin_unknown_}) {
    pollers_.front()->AlsoServe(*service);
  }
  return absl::OkStatus();
}

// Health only, for clients without TLS.
absl::Status Daemon::ListenHealth() {
  const Config& config = state_.config();
  if (config.health_listen == "off") return absl::OkStatus();
  grpc::ServerBuilder builder;
  builder.SetOption(std::make_unique<NoReflection>());
  builder.RegisterService(&probe_health_);
  probe_unknown_.RegisterAt(builder);
  auto server = StartSmallServer(
      builder,
      {"health_listen", config.health_listen,
       SmallPort("health", false, kHealthStreamsPerConnection), grpc::InsecureServerCredentials()},
      &health_address_);
  if (!server.ok()) return server.status();
  health_server_ = *std::move(server);
  pollers_.front()->AlsoServe(probe_health_);
  pollers_.front()->AlsoServe(probe_unknown_);
  return absl::OkStatus();
}

absl::Status Daemon::ListenMetrics() {
  const std::string& address = state_.config().metrics_listen;
  if (address == "off") return absl::OkStatus();
  std::vector<const RpcRecorder*> recorders;
  for (const auto& poller : pollers_) recorders.push_back(&poller->served());
  for (const auto* threads : {&long_reads_, &long_writes_}) {
    recorders.push_back(&(*threads)->served());
  }
  metrics_ = std::make_shared<Metrics>(state_, door_, std::move(recorders), tls_.get());
  auto http = MetricsHttp::Start(metrics_);
  if (!http.ok()) return http.status();
  metrics_http_ = *std::move(http);
  const absl::StatusOr<std::string> bound = door_.Open(SmallPort("metrics", false, 1), address);
  if (!bound.ok()) {
    return ListenError("metrics_listen", address, std::string(bound.status().message()));
  }
  metrics_address_ = *bound;
  door_.Attach([this](int fd) { metrics_http_->Serve(fd); }, 0);
  return absl::OkStatus();
}

StoreOptions Daemon::MakeStoreOptions() {
  const Config& config = state_.config();
  StoreOptions options;
  options.engine = config.engine;
  options.pool_path = config.pool;
  options.pool_size_bytes = config.pool_size;
  options.pool_must_exist = config.pool_must_exist;
  options.pool_identity_file = config.pool_identity_file;
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
  options.on_recovery_end = [this](const RecoveryState& state) {
    LogRecoveryEnd(state);
    health_.Set(kRecoveryHealthName, state.error.ok());
  };
  options.end_at_damaged_metadata = true;
  options.on_pool_gone = [this](const std::string& what) { OnPoolGone(what); };
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
  LogPoolSize(store_->info(), state_.config().pool_size);
  LogJournal(*store_, state_.config().journal_path);
  state_.Serve(*store_);
  health_.Set(MediumHealthName(store_->info().medium_class), true);
  health_.Set(v1::KvService::service_full_name(), true);
  health_.Set("", true);
  // What goes on in the background calls on_recovery_end.
  const RecoveryState recovery = store_->engine().GetRecoveryState();
  if (recovery.finished) health_.Set(kRecoveryHealthName, recovery.error.ok());
  Log(LogLevel::kInfo, "serving",
      {{"data", data_address_},
       {"recovery", recovery.finished ? "finished" : "continues in the background"},
       {"after_milliseconds", std::chrono::duration_cast<milliseconds>(state_.Uptime()).count()}});
  return absl::OkStatus();
}

void Daemon::Reload(const ConfigSources& sources) {
  if (tls_ != nullptr) tls_->CheckNow();
  const absl::StatusOr<ReloadPlan> plan = PlanReload(state_.config(), sources);
  if (!plan.ok()) {
    Log(LogLevel::kError, "reload refused, the configuration stays as it was",
        {{"what", std::string(plan.status().message())}});
    return;
  }
  if (!plan->changed.empty()) state_.Adopt(plan->config);
  // Logged if either the old or the new level allows it.
  const bool logs_now = Logs(LogLevel::kInfo);
  if (logs_now) LogReload(*plan);
  SetUpLog(plan->config.log_format, plan->config.log_level);
  if (!logs_now) LogReload(*plan);
}

void Daemon::SetReachable(bool reachable) {
  Log(reachable ? LogLevel::kInfo : LogLevel::kError,
      reachable ? "connections are accepted again"
                : "no connection could be accepted for some seconds; health answers NOT_SERVING");
  health_.SetReachable(reachable);
}

void Daemon::OnPoolGone(const std::string& what) {
  state_.NotePoolGone();
  Log(LogLevel::kCritical,
      "the pool is gone: nothing more is acknowledged, every call is refused until the daemon is "
      "ended",
      {{"what", what}});
  health_.StopServing();
}

// Waits until all accepted calls are answered, or the grace period is over.
void Daemon::AwaitInFlight() {
  const auto end = std::chrono::steady_clock::now() + milliseconds(state_.config().drain_grace_ms);
  while (state_.admission().operations() != 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(kInFlightPoll);
  }
  const uint64_t left = state_.admission().operations();
  if (left == 0) return;
  Log(LogLevel::kWarning, "the grace period is over: calls in flight are cancelled",
      {{"operations", left}, {"drain_grace", FormatDuration(state_.config().drain_grace_ms)}});
}

void Daemon::StopServers() {
  // gRPC neither accepts nor closes a connection handed to a server that has shut down.
  door_.Stop();
  const auto soon = std::chrono::system_clock::now() + kWatcherGrace;
  if (long_reads_ != nullptr) long_reads_->BeginStop();
  const std::array servers = {&data_server_, &admin_server_, &health_server_};
  for (const auto* server : servers) {
    if (*server != nullptr) (*server)->Shutdown(soon);
  }
  admin_service_.Stop();
  for (const auto& poller : pollers_) poller->RequestStop();
  for (const auto& poller : pollers_) poller->Join();
  metrics_http_.reset();
  for (auto* server : servers) server->reset();
  // After the servers that feed their queues; a queue must not be asked to stop a second time.
  pollers_.clear();
  long_reads_.reset();
  long_writes_.reset();
  unused_queues_.clear();
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
  for (const auto& poller : pollers_) poller->RequestDrain();
  AwaitInFlight();
  StopServers();
  if (store_ == nullptr) return absl::OkStatus();
  const std::unique_ptr<Store> store = std::move(store_);
  absl::Status status = store->Close();
  if (status.ok()) Log(LogLevel::kInfo, "pool closed cleanly");
  return status;
}

}  // namespace lodgekv::server
