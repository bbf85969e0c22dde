#include "server/metrics/metrics.h"

#include <spdlog/fmt/fmt.h>

#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "base/version.h"
#include "index/cost.h"
#include "index/key_format_name.h"
#include "server/base/handshake_log.h"
#include "server/base/log.h"
#include "server/front_door/header_guard.h"
#include "server/metrics/process_metrics.h"

namespace lodgekv::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<std::pair<std::string_view, std::string_view>>;

class Families {
 public:
  // The values that follow belong to this family.
  void Begin(std::string name, std::string_view help, MetricType type) {
    families_.push_back({std::move(name), std::string(help), type, {}});
  }

  void Value(double value, const Labels& labels) {
    ClientMetric metric = Labelled(labels);
    if (families_.back().type == MetricType::Counter) {
      metric.counter.value = value;
    } else {
      metric.gauge.value = value;
    }
    families_.back().metric.push_back(std::move(metric));
  }

  void Histogram(ClientMetric::Histogram histogram, const Labels& labels) {
    ClientMetric metric = Labelled(labels);
    metric.histogram = std::move(histogram);
    families_.back().metric.push_back(std::move(metric));
  }

  void Gauge(std::string_view name, std::string_view help, double value,
             const Labels& labels = {}) {
    Begin(fmt::format("lodgekv_{}", name), help, MetricType::Gauge);
    Value(value, labels);
  }

  void Counter(std::string_view name, std::string_view help, double value,
               const Labels& labels = {}) {
    Begin(fmt::format("lodgekv_{}", name), help, MetricType::Counter);
    Value(value, labels);
  }

  std::vector<MetricFamily> Take() { return std::move(families_); }

 private:
  static ClientMetric Labelled(const Labels& labels) {
    ClientMetric metric;
    for (const auto& [name, value] : labels) {
      metric.label.push_back({std::string(name), std::string(value)});
    }
    return metric;
  }

  std::vector<MetricFamily> families_;
};

double AsDouble(uint64_t value) { return static_cast<double>(value); }

ClientMetric::Histogram SumCells(const std::vector<const RpcRecorder*>& recorders, size_t method,
                                 size_t code) {
  constexpr size_t kBuckets = kLatencyBoundsNs.size() + 1;
  std::array<uint64_t, kBuckets> counts{};
  uint64_t sum_ns = 0;
  for (const RpcRecorder* recorder : recorders) {
    const LatencyCell& cell = recorder->cell(method, code);
    for (size_t i = 0; i < kBuckets; ++i) counts[i] += cell.buckets[i].Get();
    sum_ns += cell.sum_ns.Get();
  }
  ClientMetric::Histogram histogram;
  for (size_t i = 0; i < kBuckets; ++i) {
    histogram.sample_count += counts[i];
    const double bound = i + 1 < kBuckets ? AsDouble(kLatencyBoundsNs[i]) / 1e9
                                          : std::numeric_limits<double>::infinity();
    histogram.bucket.push_back({histogram.sample_count, bound});
  }
  histogram.sample_sum = AsDouble(sum_ns) / 1e9;
  return histogram;
}

// The codes that deploy/prometheus/rules.yml alerts on: an increase is visible only if the counter
// was exported before, so the first loss of data would be missed.
bool IsAlwaysShown(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::OK:
    case grpc::StatusCode::UNKNOWN:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
    case grpc::StatusCode::INTERNAL:
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DATA_LOSS: return true;
    default: return false;
  }
}

void CollectRpcs(const ServerState& state, const std::vector<const RpcRecorder*>& recorders,
                 Families& out) {
  out.Begin("lodgekv_rpc_latency_seconds",
            "From the receipt of the request to the sending of its answer, by call and code",
            MetricType::Histogram);
  for (size_t method = 0; method < kMethodCount; ++method) {
    for (size_t code = 0; code < kCodeCount; ++code) {
      ClientMetric::Histogram histogram = SumCells(recorders, method, code);
      const auto named = static_cast<grpc::StatusCode>(code);
      if (histogram.sample_count == 0 && !IsAlwaysShown(named)) continue;
      out.Histogram(std::move(histogram),
                    {{"rpc", kMethodNames[method]}, {"code", CodeName(named)}});
    }
  }
  uint64_t groups = 0;
  uint64_t operations = 0;
  uint64_t writes = 0;
  uint64_t written_bytes = 0;
  uint64_t session_operations = 0;
  for (const RpcRecorder* recorder : recorders) {
    groups += recorder->write_groups();
    operations += recorder->write_group_operations();
    writes += recorder->write_operations();
    written_bytes += recorder->write_bytes();
    session_operations += recorder->session_operations();
  }
  out.Counter("write_groups_total",
              "Groups of writes, single ones and those of sessions, that went to the engine",
              AsDouble(groups));
  out.Counter("write_group_operations_total",
              "Writes, single ones and those of sessions, that went to the engine in groups",
              AsDouble(operations));
  out.Counter("session_operations_total",
              "Operations of the messages of sessions; rpc_latency_seconds counts the messages",
              AsDouble(session_operations));
  out.Counter("write_operations_total", "Puts and deletes that took effect, alone or in batches",
              AsDouble(writes));
  out.Counter("write_bytes_total", "Bytes of the keys and values of these puts and deletes",
              AsDouble(written_bytes));
  out.Gauge("sessions", "Sessions that are open", AsDouble(state.sessions()));
  const Admission& admission = state.admission();
  out.Gauge("rpc_in_flight_operations", "Operations accepted and not yet answered",
            AsDouble(admission.operations()));
  out.Gauge("rpc_in_flight_bytes", "Bytes of their requests and answers",
            AsDouble(admission.bytes()));
  out.Gauge("rpc_waiting_bytes",
            "Memory of messages of sessions that wait for room, beside them; at most an eighth of "
            "the limit",
            AsDouble(admission.waiting_bytes()));
  out.Gauge("rpc_in_flight_operations_limit", "The limit max_inflight_operations",
            AsDouble(admission.max_operations()));
  out.Gauge("rpc_in_flight_bytes_limit", "The limit max_inflight_size",
            AsDouble(admission.max_bytes()));
}

void CollectRefusals(const ServerState& state, const std::vector<const RpcRecorder*>& recorders,
                     Families& out) {
  const Admission& admission = state.admission();
  out.Gauge("rpc_reserve_operations",
            "Operations in flight in the reserve, which admits connections that use little when "
            "a limit or share is reached",
            AsDouble(admission.reserve_operations()));
  out.Gauge("rpc_reserve_bytes", "Bytes of their requests and answers",
            AsDouble(admission.reserve_bytes()));
  out.Begin("lodgekv_rpc_refusals_total",
            "Calls refused because too much was in flight, by the limit or share that was reached",
            MetricType::Counter);
  for (size_t limit = 0; limit < kAdmissionLimits; ++limit) {
    uint64_t refusals = 0;
    for (const RpcRecorder* recorder : recorders) refusals += recorder->refusals(limit);
    out.Value(AsDouble(refusals), {{"limit", kAdmissionLimitNames[limit]}});
  }
  uint64_t unread = 0;
  for (const RpcRecorder* recorder : recorders) unread += recorder->unread();
  out.Counter("rpc_untaken_answers_total",
              "Calls cancelled because their client did not read the answer in time",
              AsDouble(unread));
}

// One family: one field of each call's cost.
void CollectRpcCost(const std::array<Cost, kMethodCount>& costs, uint64_t Cost::*count,
                    std::string_view name, std::string_view help, Families& out) {
  out.Begin(fmt::format("lodgekv_{}", name), help, MetricType::Counter);
  for (size_t method = 0; method < kMethodCount; ++method) {
    out.Value(AsDouble(costs[method].*count), {{"rpc", kMethodNames[method]}});
  }
}

void CollectRpcCosts(const std::vector<const RpcRecorder*>& recorders, Families& out) {
  std::array<Cost, kMethodCount> costs;
  for (size_t method = 0; method < kMethodCount; ++method) {
    for (const RpcRecorder* recorder : recorders) {
      costs[method] = costs[method] + recorder->cost(method);
    }
  }
  CollectRpcCost(costs, &Cost::lines_flushed, "rpc_lines_flushed_total",
                 "64-byte lines that requests wrote back, by call; writes in one group share them "
                 "by their bytes",
                 out);
  CollectRpcCost(
      costs, &Cost::fences, "rpc_fences_total",
      "Fences that requests waited for (on an ordinary file, each for a group of the journal), "
      "by call; a fence shared by several writes counts once, for one of them",
      out);
  CollectRpcCost(costs, &Cost::media_writes_256b, "rpc_media_writes_256b_total",
                 "Distinct blocks of 256 bytes that requests wrote between two fences, by call; "
                 "shared in a group by bytes",
                 out);
  CollectRpcCost(costs, &Cost::bytes_stored, "rpc_stored_bytes_total",
                 "Bytes that requests stored to the medium, by call; shared in a group by bytes",
                 out);
}

void CollectCost(std::string_view engine, Families& out) {
  const Cost cost = TotalCost();
  const Labels labels{{"engine", engine}};
  out.Counter("lines_flushed_total", "64-byte lines written back to the medium",
              AsDouble(cost.lines_flushed), labels);
  out.Counter(
      "fences_total",
      "Fences waited for; on an ordinary file, threads that wait at the same time share a sync of "
      "the journal",
      AsDouble(cost.fences), labels);
  out.Counter("media_writes_256b_total", "Distinct blocks of 256 bytes written between two fences",
              AsDouble(cost.media_writes_256b), labels);
  out.Counter("stored_bytes_total", "Bytes stored to the medium", AsDouble(cost.bytes_stored),
              labels);
}

void CollectSpace(const SpaceUse& space, Families& out) {
  out.Gauge("pool_total_bytes", "Size of the pool: used, free and reserved",
            AsDouble(space.total_bytes));
  out.Gauge("pool_used_bytes", "Space of the pool in use", AsDouble(space.used_bytes));
  out.Gauge("pool_free_bytes", "Space of the pool free for any write", AsDouble(space.free_bytes));
  out.Gauge("pool_reserved_bytes", "Space kept so that deletes work in a full pool",
            AsDouble(space.reserved_bytes));
}

void CollectJournalWriting(const JournalUse& use, Families& out) {
  out.Gauge("journal_size_bytes", "Space of the journal for groups", AsDouble(use.size_bytes));
  out.Gauge("journal_used_bytes", "Space taken by groups that a replay would need",
            AsDouble(use.used_bytes));
  out.Counter("journal_syncs_total", "Groups written to the journal, each by one sync",
              AsDouble(use.syncs));
  out.Counter("journal_fences_total",
              "Fences that waited for a group; divided by the syncs, how many share one",
              AsDouble(use.fences));
  out.Counter("journal_written_bytes_total", "Bytes written to the journal",
              AsDouble(use.written_bytes));
  out.Counter("journal_waits_total",
              "Times that a writer waited for a checkpoint because the journal was full",
              AsDouble(use.waits));
  out.Counter("journal_wait_seconds_total", "Time that writers waited for a checkpoint",
              AsDouble(use.wait_ns) / 1e9);
  out.Counter("journal_pool_syncs_total",
              "Fences of so many lines that the pool was synced instead of the journal",
              AsDouble(use.pool_syncs));
}

void CollectCheckpoints(const JournalUse& use, Families& out) {
  out.Counter("journal_checkpoints_total", "Checkpoints completed", AsDouble(use.checkpoints));
  out.Counter("journal_checkpoint_seconds_total", "Time that checkpoints took",
              AsDouble(use.checkpoint_ns) / 1e9);
  out.Counter("journal_written_back_bytes_total",
              "Bytes of pages of the pool that checkpoints wrote back",
              AsDouble(use.written_back_bytes));
  out.Gauge("journal_lag_seconds",
            "How long the oldest full segment of the journal has waited for its checkpoint; 0: "
            "none is full",
            AsDouble(use.lag_ns) / 1e9);
}

void CollectReplay(const StoreInfo& info, Families& out) {
  out.Gauge(
      "journal_replay_seconds",
      "Time that the replay of the journal at this start took, including the sync of the pool",
      AsDouble(info.journal_replay_ms) / 1e3);
  out.Gauge("journal_groups_replayed", "Groups of the journal replayed at this start",
            AsDouble(info.journal_groups_replayed));
  out.Gauge("journal_lines_replayed", "64-byte lines that the replay stored to the pool",
            AsDouble(info.journal_lines_replayed));
}

void CollectBackgroundRecovery(const RecoveryState& state, Families& out) {
  out.Gauge("recovery_unfinished",
            "1 while the engine finishes recovery in the background and already serves",
            state.finished ? 0 : 1);
  out.Gauge("recovery_steps_done", "Steps done of the current phase of an unfinished recovery",
            AsDouble(state.done));
  out.Gauge("recovery_steps",
            "Steps of the current phase of an unfinished recovery; 0: unknown, or finished",
            AsDouble(state.total));
  out.Gauge("recovery_failed",
            "1: recovery in the background met an error, which the log and Status report",
            state.error.ok() ? 0 : 1);
}

void CollectRecovery(const StoreInfo& info, const RecoveryState& state, Families& out) {
  const RecoveryReport report = state.report.value_or(info.recovery);
  out.Gauge("recovery_seconds",
            "Time that the recovery at this start took; 0 if this start created the pool",
            report.milliseconds / 1e3);
  out.Gauge("recovery_keys", "Keys found by the recovery at this start", AsDouble(report.keys));
  out.Gauge("recovery_log_entries_replayed", "Log entries replayed by the recovery at this start",
            AsDouble(report.log_entries_replayed));
  out.Gauge("recovery_repairs", "Repairs made by the recovery at this start",
            AsDouble(report.repairs));
  out.Gauge("recovery_clean", "1: the pool had been closed cleanly, or this start created it",
            info.created || report.clean ? 1 : 0);
}

void CollectEngine(Store& store, Families& out) {
  const StoreInfo& info = store.info();
  const Labels labels{{"engine", info.engine}};
  const MemoryUse memory = store.engine().GetMemoryUse();
  out.Gauge("engine_medium_bytes", "Nodes, records and logs in use on the medium",
            AsDouble(memory.medium_bytes), labels);
  out.Gauge("engine_dram_bytes", "DRAM that the engine uses", AsDouble(memory.dram_bytes), labels);
  store.engine().VisitCounters([&](const CounterSample& sample) {
    out.Begin(fmt::format("lodgekv_engine_{}", sample.name), sample.help,
              sample.kind == CounterKind::kCounter ? MetricType::Counter : MetricType::Gauge);
    out.Value(sample.value, labels);
  });
}

void CollectMedium(const StoreInfo& info, Families& out) {
  out.Gauge("medium_info", "The medium and what an acknowledged write survives on it", 1,
            {{"engine", info.engine},
             {"medium_class", info.medium_class},
             {"durability", info.durability},
             {"key_format", KeyFormatName(info.key_format)}});
}

void CollectPhase(const ServerState& state, Families& out) {
  constexpr std::array<std::pair<Phase, std::string_view>, 3> kPhases{
      {{Phase::kRecovering, "recovering"},
       {Phase::kServing, "serving"},
       {Phase::kDraining, "draining"}}};
  out.Begin("lodgekv_state", "1 for the state that the server is in", MetricType::Gauge);
  for (const auto& [phase, name] : kPhases) {
    out.Value(state.phase() == phase ? 1 : 0, {{"state", name}});
  }
  out.Gauge("pool_full",
            "1: the last put was refused because the pool was full; 0 a minute later, if "
            "something was deleted since",
            state.pool_full() ? 1 : 0);
  out.Counter("log_lines_dropped_total", "Lines of the log dropped because nobody read it",
              AsDouble(LogLinesDropped()));
  out.Gauge("pool_gone",
            "1: a file of the pool was deleted, replaced or truncated while in use; every "
            "call is refused",
            state.pool_gone() ? 1 : 0);
  out.Gauge("start_time_seconds", "When the server started, seconds since the epoch",
            AsDouble(state.started_unix_ms()) / 1e3);
  out.Gauge("build_info", "Version of the server and its engine", 1,
            {{"version", kVersion}, {"engine", state.config().engine}});
}

// One family: one counter of each port.
void CollectOfPorts(const std::vector<FrontDoor::PortView>& ports, std::string_view name,
                    std::string_view help, MetricType type,
                    std::atomic<uint64_t> DoorCounters::*count, Families& out) {
  out.Begin(fmt::format("lodgekv_{}", name), help, type);
  for (const FrontDoor::PortView& port : ports) {
    out.Value(AsDouble((port.counters.*count).load()), {{"port", port.name}});
  }
}

// The same by reason.
template <size_t kReasons>
void CollectByReason(const std::vector<FrontDoor::PortView>& ports, std::string_view name,
                     std::string_view help,
                     std::array<std::atomic<uint64_t>, kReasons> DoorCounters::*counts,
                     const std::array<std::string_view, kReasons>& reasons, Families& out) {
  out.Begin(fmt::format("lodgekv_{}", name), help, MetricType::Counter);
  for (const FrontDoor::PortView& port : ports) {
    for (size_t i = 0; i < kReasons; ++i) {
      out.Value(AsDouble((port.counters.*counts)[i].load()),
                {{"port", port.name}, {"reason", reasons[i]}});
    }
  }
}

void CollectDoor(const FrontDoor& door, Families& out) {
  const std::vector<FrontDoor::PortView> ports = door.ports();
  CollectOfPorts(ports, "connections", "Connections open, by port", MetricType::Gauge,
                 &DoorCounters::open, out);
  CollectOfPorts(ports, "connections_waiting",
                 "Connections accepted but delayed because their address opens too many",
                 MetricType::Gauge, &DoorCounters::waiting, out);
  CollectOfPorts(ports, "connections_limit",
                 "Most connections of the port: max_connections, or what the file descriptors "
                 "of the process allow",
                 MetricType::Gauge, &DoorCounters::limit, out);
  CollectOfPorts(ports, "connections_unfinished_bytes",
                 "Bytes received of incomplete requests, estimated", MetricType::Gauge,
                 &DoorCounters::unfinished_bytes, out);
  CollectOfPorts(ports, "connections_accepted_total", "Connections accepted, by port",
                 MetricType::Counter, &DoorCounters::accepted, out);
  CollectByReason(ports, "connections_refused_total",
                  "Connections refused: all: max_connections are open; peer: "
                  "max_connections_per_peer are; descriptors: "
                  "the process has no more file descriptors; offences: too many connections of "
                  "the address were ended; rate: it opens them too fast",
                  &DoorCounters::refused, kRefuseReasonNames, out);
  CollectByReason(
      ports, "connections_ended_total",
      "Connections that the server ended: made_room: idle, to make "
      "room for another; unfinished: too many bytes of incomplete requests; largest: it had "
      "most of them when all together had too many; resets: it cancelled "
      "too many calls; frames: too many that belong to no request; invalid: too many bytes of "
      "invalid requests; stalled: a request that made "
      "no progress",
      &DoorCounters::ended, kEndReasonNames, out);
  out.Begin(
      "lodgekv_accept_failures_total",
      "Connections that could not be accepted: no file descriptor, no memory, or another error",
      MetricType::Counter);
  for (size_t i = 0; i < kAcceptFailureNames.size(); ++i) {
    out.Value(AsDouble(door.accept_failures(static_cast<AcceptFailure>(i))),
              {{"reason", kAcceptFailureNames[i]}});
  }
  out.Counter("header_blocks_too_large_total",
              "Blocks of headers above 64 KiB, of any port: what is beyond is not parsed",
              AsDouble(TooLargeHeaderBlocks()));
}

void CollectTls(const TlsWatcher& tls, Families& out) {
  out.Gauge("tls_certificate_expiry_timestamp_seconds",
            "When the first certificate in use to expire does so, seconds since the epoch",
            static_cast<double>(tls.expiry_unix_s()));
  if (tls.ca_expiry_unix_s() != 0) {
    out.Gauge("tls_client_ca_expiry_timestamp_seconds",
              "When the last of the clients' CA certificates expires, seconds since the epoch",
              static_cast<double>(tls.ca_expiry_unix_s()));
  }
  out.Counter("tls_reloads_total", "Rotations of the TLS files that were loaded",
              AsDouble(tls.reloads()));
  out.Counter("tls_reload_failures_total",
              "Rotations of the TLS files that were refused; the log says why",
              AsDouble(tls.refusals()));
  out.Counter("tls_handshake_failures_total",
              "Failed TLS handshakes: a certificate missing or not accepted, "
              "or no TLS",
              AsDouble(HandshakeFailures()));
  out.Gauge("tls_reload_failing",
            "1: the TLS files differ from those in use: they could not be loaded",
            tls.refusing() ? 1 : 0);
}

}  // namespace

std::vector<MetricFamily> Metrics::Collect() const {
  Families out;
  CollectPhase(state_, out);
  CollectDoor(door_, out);
  if (tls_ != nullptr) CollectTls(*tls_, out);
  CollectRpcs(state_, recorders_, out);
  CollectRefusals(state_, recorders_, out);
  CollectRpcCosts(recorders_, out);
  if (Store* store = state_.store()) {
    CollectMedium(store->info(), out);
    CollectCost(store->info().engine, out);
    CollectSpace(store->GetSpaceUse(), out);
    if (const std::optional<JournalUse> use = store->GetJournalUse()) {
      CollectJournalWriting(*use, out);
      CollectCheckpoints(*use, out);
      CollectReplay(store->info(), out);
    }
    const RecoveryState recovery = store->engine().GetRecoveryState();
    CollectRecovery(store->info(), recovery, out);
    CollectBackgroundRecovery(recovery, out);
    CollectEngine(*store, out);
  }
  std::vector<MetricFamily> families = out.Take();
  AppendProcessMetrics(families);
  return families;
}

}  // namespace lodgekv::server
