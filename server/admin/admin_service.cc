#include "server/admin/admin_service.h"

#include <chrono>
#include <optional>
#include <string>

#include "base/version.h"
#include "index/cost.h"
#include "index/registry.h"
#include "server/admin/pacer.h"
#include "server/rpc/errors.h"

namespace lodgekv::server {
namespace {

using std::chrono::nanoseconds;

void SetDuration(nanoseconds duration, google::protobuf::Duration* message) {
  message->set_seconds(duration.count() / 1'000'000'000);
  message->set_nanos(static_cast<int32_t>(duration.count() % 1'000'000'000));
}

v1::ServerState StateOf(const ServerState& state) {
  if (state.pool_gone()) return v1::SERVER_STATE_POOL_GONE;
  switch (state.phase()) {
    case Phase::kRecovering: return v1::SERVER_STATE_RECOVERING;
    case Phase::kDraining: return v1::SERVER_STATE_DRAINING;
    case Phase::kServing: break;
  }
  return state.pool_full() ? v1::SERVER_STATE_READ_ONLY_FULL : v1::SERVER_STATE_SERVING;
}

void FillRecovery(const RecoveryReport& report, v1::RecoveryReport* message) {
  message->set_clean(report.clean);
  message->set_leaves_scanned(report.leaves_scanned);
  message->set_keys(report.keys);
  message->set_log_entries_replayed(report.log_entries_replayed);
  message->set_log_entries_dropped(report.log_entries_dropped);
  message->set_repairs(report.repairs);
  message->set_bytes_reclaimed(report.bytes_reclaimed);
  message->set_threads(report.threads);
  const std::chrono::duration<double, std::milli> ms(report.milliseconds);
  SetDuration(std::chrono::duration_cast<nanoseconds>(ms), message->mutable_duration());
}

void FillStore(const StoreInfo& info, v1::StatusResponse* response) {
  response->set_pool_path(info.pool_path);
  response->set_key_format(info.key_format == KeyFormat::kFixed64 ? v1::KEY_FORMAT_FIXED64
                                                                  : v1::KEY_FORMAT_BYTES);
  response->set_inline_pairs(info.inline_pairs);
  response->set_pool_id(info.pool_id);
  response->set_media_version(info.media_version);
  response->set_medium_class(info.medium_class);
  response->set_durability(info.durability);
  response->set_durability_detail(info.durability_detail);
  response->set_pool_created(info.created);
}

// The store is open; recovery may continue in the background.
void FillRecoveryState(const StoreInfo& info, const RecoveryState& state,
                       v1::StatusResponse* response) {
  if (!info.created) {
    FillRecovery(state.report.value_or(info.recovery), response->mutable_recovery());
  }
  if (!state.error.ok()) response->set_recovery_error(state.error.ToString());
  if (state.finished) return;
  response->mutable_recovery_progress()->set_phase(state.phase);
  response->mutable_recovery_progress()->set_done(state.done);
  response->mutable_recovery_progress()->set_total(state.total);
}

void FillJournal(const StoreInfo& info, const JournalUse& use, v1::JournalStatus* message) {
  message->set_path(info.journal_path);
  message->set_size_bytes(use.size_bytes);
  message->set_used_bytes(use.used_bytes);
  message->set_groups_replayed(info.journal_groups_replayed);
  message->set_lines_replayed(info.journal_lines_replayed);
  SetDuration(std::chrono::milliseconds(info.journal_replay_ms),
              message->mutable_replay_duration());
}

// The error for calls about the data while the store is not open.
grpc::Status UnavailableError(const ServerState& state) {
  if (state.pool_gone()) return PoolGoneError();
  return state.phase() == Phase::kDraining ? DrainingError() : RecoveringError();
}

void FillSpace(const SpaceUse& use, v1::PoolSpace* message) {
  message->set_total_bytes(use.total_bytes);
  message->set_used_bytes(use.used_bytes);
  message->set_free_bytes(use.free_bytes);
  message->set_reserved_bytes(use.reserved_bytes);
}

void FillCost(const Cost& cost, v1::Cost* message) {
  message->set_lines_flushed(cost.lines_flushed);
  message->set_fences(cost.fences);
  message->set_media_writes_256b(cost.media_writes_256b);
  message->set_bytes_stored(cost.bytes_stored);
}

grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, const grpc::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(status);
  return reactor;
}

// A stream that fails at once.
class RefusedBackup final : public grpc::ServerWriteReactor<v1::BackupResponse> {
 public:
  explicit RefusedBackup(const grpc::Status& status) { Finish(status); }
  void OnDone() override { delete this; }
};

// A check works a quarter of the time: it is not urgent, and writers wait for its steps.
constexpr int kCheckRest = 3;

}  // namespace

grpc::ServerUnaryReactor* AdminService::Status(grpc::CallbackServerContext* context,
                                               const v1::StatusRequest*,
                                               v1::StatusResponse* response) {
  response->set_version(kVersion);
  response->set_state(StateOf(state_));
  SetDuration(state_.Uptime(), response->mutable_uptime());
  response->set_engine(state_.config().engine);
  response->set_pool_path(state_.config().pool);
  if (Store* store = state_.store()) {
    FillStore(store->info(), response);
    FillRecoveryState(store->info(), store->engine().GetRecoveryState(), response);
    if (const std::optional<JournalUse> use = store->GetJournalUse()) {
      FillJournal(store->info(), *use, response->mutable_journal());
    }
  } else {
    const Progress progress = state_.progress();
    response->mutable_recovery_progress()->set_phase(progress.phase);
    response->mutable_recovery_progress()->set_done(progress.done);
    response->mutable_recovery_progress()->set_total(progress.total);
  }
  return Answer(context, grpc::Status::OK);
}

grpc::ServerUnaryReactor* AdminService::Stats(grpc::CallbackServerContext* context,
                                              const v1::StatsRequest* request,
                                              v1::StatsResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const bool taken = stats_.TryPost([=, this] { reactor->Finish(FillStats(*request, response)); });
  if (!taken)
    reactor->Finish(
        BusyError("other callers wait for the statistics: try again when they have them"));
  return reactor;
}

grpc::Status AdminService::FillStats(const v1::StatsRequest& request,
                                     v1::StatsResponse* response) const {
  Store* store = state_.store();
  if (store == nullptr || state_.pool_gone()) return UnavailableError(state_);
  Engine& engine = store->engine();
  if (!request.skip_key_count()) response->set_keys(engine.CountKeys());
  FillSpace(store->GetSpaceUse(), response->mutable_space());
  const MemoryUse memory = engine.GetMemoryUse();
  response->set_engine_medium_bytes(memory.medium_bytes);
  response->set_engine_dram_bytes(memory.dram_bytes);
  FillCost(TotalCost(), response->mutable_cost());
  response->set_applied_index(engine.AppliedIndex());
  engine.VisitCounters([response](const CounterSample& sample) {
    v1::Counter* counter = response->add_engine_counters();
    counter->set_name(std::string(sample.name));
    counter->set_help(std::string(sample.help));
    counter->set_kind(sample.kind == CounterKind::kCounter ? v1::COUNTER_KIND_COUNTER
                                                           : v1::COUNTER_KIND_GAUGE);
    counter->set_value(sample.value);
  });
  return grpc::Status::OK;
}

grpc::ServerUnaryReactor* AdminService::Engines(grpc::CallbackServerContext* context,
                                                const v1::EnginesRequest*,
                                                v1::EnginesResponse* response) {
  for (const EngineInfo* info : AllEngines()) {
    v1::EngineDescription* engine = response->add_engines();
    engine->set_name(std::string(info->name));
    engine->set_summary(std::string(info->summary));
    engine->set_paper(std::string(info->paper));
    engine->set_media_version(info->media_version);
    engine->set_persistent(info->persistent);
    engine->set_discards(info->discards);
    engine->set_serving(info->name == state_.config().engine);
    for (const EngineOption& row : info->options) {
      v1::EngineOption* option = engine->add_options();
      option->set_name(std::string(row.name));
      option->set_default_value(row.default_value);
      option->set_min_value(row.min_value);
      option->set_max_value(row.max_value);
      option->set_doc(std::string(row.doc));
    }
  }
  return Answer(context, grpc::Status::OK);
}

grpc::ServerUnaryReactor* AdminService::Check(grpc::CallbackServerContext* context,
                                              const v1::CheckRequest*,
                                              v1::CheckResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const bool taken = check_.TryPost([=, this] { reactor->Finish(RunCheck(*context, response)); });
  if (!taken)
    reactor->Finish(
        BusyError("a check is running and another one waits: try again when they have ended"));
  return reactor;
}

grpc::Status AdminService::RunCheck(const grpc::CallbackServerContext& context,
                                    v1::CheckResponse* response) const {
  Store* store = state_.store();
  if (store == nullptr || state_.pool_gone()) return UnavailableError(state_);
  const auto begin = std::chrono::steady_clock::now();
  Pacer pacer(kCheckRest);
  const CheckReport report = store->engine().CheckInPassing([&] {
    pacer.Pause();
    return !context.IsCancelled();
  });
  pacer.Pause();
  if (context.IsCancelled()) return {grpc::StatusCode::CANCELLED, "nobody waits for the check"};
  SetDuration(std::chrono::steady_clock::now() - begin, response->mutable_duration());
  response->set_sound(report.problem_count == 0 && report.problems.empty());
  response->set_keys(report.keys);
  response->set_leaves(report.leaves);
  response->set_bytes_reachable(report.bytes_reachable);
  response->set_problem_count(report.problem_count);
  for (const std::string& problem : report.problems) response->add_problems(problem);
  return grpc::Status::OK;
}

grpc::ServerWriteReactor<v1::BackupResponse>* AdminService::Backup(grpc::CallbackServerContext*,
                                                                   const v1::BackupRequest*) {
  return new RefusedBackup(NotServedError("lodgekv.v1.AdminService.Backup"));
}

grpc::ServerUnaryReactor* AdminService::DeleteRange(grpc::CallbackServerContext* context,
                                                    const v1::DeleteRangeRequest*,
                                                    v1::DeleteRangeResponse*) {
  return Answer(context, NotServedError("lodgekv.v1.AdminService.DeleteRange"));
}

grpc::ServerUnaryReactor* AdminService::Checksum(grpc::CallbackServerContext* context,
                                                 const v1::ChecksumRequest*,
                                                 v1::ChecksumResponse*) {
  return Answer(context, NotServedError("lodgekv.v1.AdminService.Checksum"));
}

grpc::ServerUnaryReactor* AdminService::ApplyBatch(grpc::CallbackServerContext* context,
                                                   const v1::ApplyBatchRequest*,
                                                   v1::ApplyBatchResponse*) {
  return Answer(context, NotServedError("lodgekv.v1.AdminService.ApplyBatch"));
}

}  // namespace lodgekv::server
