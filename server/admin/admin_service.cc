#include "server/admin/admin_service.h"

#include <chrono>
#include <optional>
#include <string>

#include "base/version.h"
#include "index/cost.h"
#include "index/registry.h"
#include "server/admin/admin_call.h"
#include "server/admin/pacer.h"
#include "server/rpc/errors.h"

namespace lodgekv::server {
namespace {

using Calls = v1::AdminService::AsyncService;
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

// A stream that fails at once.
class RefusedBackup final : public Event {
 public:
  static void Receive(AdminService& service, grpc::ServerCompletionQueue& queue) {
    auto* call = new RefusedBackup(service, queue);
    service.RequestBackup(&call->context_, &call->request_, &call->writer_, &queue, &queue,
                          call->Tag());
  }

  void OnEvent(bool ok) override {
    if (!ok || answered_) {
      delete this;
      return;
    }
    Receive(service_, queue_);
    answered_ = true;
    writer_.Finish(NotServedError("lodgekv.v1.AdminService.Backup"), Tag());
  }

 private:
  RefusedBackup(AdminService& service, grpc::ServerCompletionQueue& queue)
      : service_(service), queue_(queue) {}

  AdminService& service_;
  grpc::ServerCompletionQueue& queue_;
  bool answered_ = false;
  grpc::ServerContext context_;
  v1::BackupRequest request_;
  grpc::ServerAsyncWriter<v1::BackupResponse> writer_{&context_};
};

// Has `handler` answer the calls of a method: Calls::Request<name>.
template <class Base, class Request, class Response, class Handler>
void ReceiveCalls(AdminService& service, grpc::ServerCompletionQueue& queue,
                  void (Base::*method)(grpc::ServerContext*, Request*,
                                       grpc::ServerAsyncResponseWriter<Response>*,
                                       grpc::CompletionQueue*, grpc::ServerCompletionQueue*, void*),
                  Handler handler) {
  AdminCall<AdminService, Request, Response>::Receive(service, method, handler, queue);
}

// A check works a quarter of the time: it is not urgent, and writers wait for its steps.
constexpr int kCheckRest = 3;

}  // namespace

void AdminService::Receive(grpc::ServerCompletionQueue& queue) {
  ReceiveCalls(*this, queue, &Calls::RequestStatus, [this](auto& call) {
    FillStatus(&call.response());
    call.Answer(grpc::Status::OK);
  });
  ReceiveCalls(*this, queue, &Calls::RequestEngines, [this](auto& call) {
    FillEngines(&call.response());
    call.Answer(grpc::Status::OK);
  });
  ReceiveCalls(*this, queue, &Calls::RequestStats, [this](auto& call) {
    const bool taken =
        stats_.TryPost([this, &call] { call.Answer(FillStats(call.request(), &call.response())); });
    if (!taken)
      call.Answer(
          BusyError("other callers wait for the statistics: try again when they have them"));
  });
  ReceiveCalls(*this, queue, &Calls::RequestCheck, [this](auto& call) {
    const bool taken = check_.TryPost([this, &call] {
      call.Answer(RunCheck([&call] { return call.cancelled(); }, &call.response()));
    });
    if (!taken)
      call.Answer(
          BusyError("a check is running and another one waits: try again when they have ended"));
  });
  ReceiveUnserved(queue);
}

// Not served yet.
void AdminService::ReceiveUnserved(grpc::ServerCompletionQueue& queue) {
  const auto refuse = [&](auto method, const char* name) {
    ReceiveCalls(*this, queue, method, [name](auto& call) { call.Answer(NotServedError(name)); });
  };
  refuse(&Calls::RequestDeleteRange, "lodgekv.v1.AdminService.DeleteRange");
  refuse(&Calls::RequestChecksum, "lodgekv.v1.AdminService.Checksum");
  refuse(&Calls::RequestApplyBatch, "lodgekv.v1.AdminService.ApplyBatch");
  RefusedBackup::Receive(*this, queue);
}

void AdminService::FillStatus(v1::StatusResponse* response) const {
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

void AdminService::FillEngines(v1::EnginesResponse* response) const {
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
}

grpc::Status AdminService::RunCheck(const std::function<bool()>& cancelled,
                                    v1::CheckResponse* response) const {
  Store* store = state_.store();
  if (store == nullptr || state_.pool_gone()) return UnavailableError(state_);
  const auto begin = std::chrono::steady_clock::now();
  Pacer pacer(kCheckRest);
  const CheckReport report = store->engine().CheckInPassing([&] {
    pacer.Pause();
    return !cancelled();
  });
  pacer.Pause();
  if (cancelled()) return {grpc::StatusCode::CANCELLED, "nobody waits for the check"};
  SetDuration(std::chrono::steady_clock::now() - begin, response->mutable_duration());
  response->set_sound(report.problem_count == 0 && report.problems.empty());
  response->set_keys(report.keys);
  response->set_leaves(report.leaves);
  response->set_bytes_reachable(report.bytes_reachable);
  response->set_problem_count(report.problem_count);
  for (const std::string& problem : report.problems) response->add_problems(problem);
  return grpc::Status::OK;
}

}  // namespace lodgekv::server
