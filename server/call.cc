#include "server/call.h"

#include <algorithm>

#include "lodgekv/v1/kv.pb.h"
#include "server/errors.h"
#include "server/log.h"
#include "server/poller.h"

namespace lodgekv::server {
namespace {

constexpr const char* kCostTrailer = "lodgekv-cost-bin";

int64_t Milliseconds(Call::SteadyClock::time_point time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

std::string SerializeCost(const Cost& cost, uint64_t operations, const Cost& share) {
  v1::Cost message;
  message.set_lines_flushed(cost.lines_flushed);
  message.set_fences(cost.fences);
  message.set_media_writes_256b(cost.media_writes_256b);
  message.set_bytes_stored(cost.bytes_stored);
  message.set_group_operations(operations);
  v1::CostShare& own = *message.mutable_share();
  own.set_lines_flushed(share.lines_flushed);
  own.set_fences(share.fences);
  own.set_media_writes_256b(share.media_writes_256b);
  own.set_bytes_stored(share.bytes_stored);
  return message.SerializeAsString();
}

}  // namespace

bool Call::Begin(uint64_t request_bytes) {
  start_ = SteadyClock::now();
  request_bytes_ = request_bytes;
  connection_ = poller_.state().connections().Find(context_->peer());
  connection_->requests.fetch_add(1, std::memory_order_relaxed);
  connection_->request_bytes.fetch_add(request_bytes, std::memory_order_relaxed);
  if (poller_.state().pool_gone()) {
    Answer(PoolGoneError());
    return false;
  }
  switch (poller_.state().phase()) {
    case Phase::kServing: return true;
    case Phase::kRecovering: Answer(RecoveringError()); return false;
    case Phase::kDraining: Answer(DrainingError()); return false;
  }
  return false;
}

grpc::Status Call::Refuse(const Admission::Verdict& verdict) {
  poller_.own_recorder().RecordRefusal(verdict.limit);
  return OverloadedError(verdict);
}

bool Call::Admit(uint64_t operations, uint64_t bytes) {
  const Admission::Verdict verdict =
      poller_.state().admission().Take(*connection_, operations, bytes, held_);
  if (verdict.admitted) return true;
  Answer(Refuse(verdict));
  return false;
}

std::optional<grpc::Status> Call::Hold(uint64_t bytes, Admission::Held& held) {
  const Admission::Verdict verdict = poller_.state().admission().Take(*connection_, 0, bytes, held);
  if (verdict.admitted) return std::nullopt;
  return Refuse(verdict);
}

bool Call::TryHold(uint64_t bytes, Admission::Held& held) {
  return poller_.state().admission().Take(*connection_, 0, bytes, held).admitted;
}

void Call::KeepOf(Admission::Held& held, uint64_t bytes) {
  poller_.state().admission().KeepBytes(*connection_, held, bytes);
}

void Call::GiveBack(Admission::Held& held) {
  if (connection_ != nullptr) poller_.state().admission().Leave(*connection_, held);
}

void Call::Offered() {
  offered_ = SteadyClock::now();
  poller_.AwaitTaken(*this);
}

void Call::Taken(bool ok) {
  poller_.NoteTaken(*this);
  if (ok) connection_->taken_ms.store(Milliseconds(SteadyClock::now()), std::memory_order_relaxed);
}

bool Call::ConnectionTookNothingSince(SteadyClock::time_point since) const {
  return connection_->taken_ms.load(std::memory_order_relaxed) < Milliseconds(since);
}

void Call::Finished(grpc::StatusCode code, bool want_cost) {
  if (want_cost) {
    context_->AddTrailingMetadata(kCostTrailer, SerializeCost(cost_, group_operations_, share_));
  }
  if (code == grpc::StatusCode::INVALID_ARGUMENT) {
    connection_->invalid_bytes.fetch_add(std::max(request_bytes_, BuiltBytes()),
                                         std::memory_order_relaxed);
  }
  const auto now = SteadyClock::now();
  const auto latency = std::chrono::duration_cast<std::chrono::nanoseconds>(now - start_).count();
  poller_.own_recorder().Record(method_, code, static_cast<uint64_t>(latency));
  poller_.own_recorder().RecordCost(method_, share_);
  const uint64_t slow_ms = poller_.state().config().slow_request_ms;
  if (slow_ms == 0 || latency < static_cast<int64_t>(slow_ms) * 1'000'000) return;
  uint64_t suppressed = 0;
  if (!poller_.slow_log().Due(&suppressed)) return;
  Log(LogLevel::kWarning, "slow request",
      {{"rpc", kMethodNames[static_cast<size_t>(method_)]},
       {"code", CodeName(code)},
       {"latency_us", static_cast<uint64_t>(latency / 1000)},
       {"held_bytes", held_.bytes},
       {"lines_flushed", cost_.lines_flushed},
       {"fences", cost_.fences},
       {"media_writes_256b", cost_.media_writes_256b},
       {"group_operations", group_operations_},
       {"share_lines_flushed", share_.lines_flushed},
       {"share_fences", share_.fences},
       {"share_media_writes_256b", share_.media_writes_256b},
       {"not_logged_before", suppressed}});
}

void Call::Release() {
  LetGo();
  GiveBack(held_);
  connection_.reset();
  cost_ = {};
  share_ = {};
  group_operations_ = 0;
  poller_.Recycle(this);
}

}  // namespace lodgekv::server
