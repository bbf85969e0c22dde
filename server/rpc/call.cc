#include "server/rpc/call.h"

#include <algorithm>
#include <utility>

#include "server/rpc/cost_message.h"
#include "server/rpc/errors.h"

namespace lodgekv::server {
namespace {

constexpr const char* kCostTrailer = "lodgekv-cost-bin";

int64_t Milliseconds(Call::SteadyClock::time_point time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

}  // namespace

bool Call::Begin(uint64_t request_bytes) {
  start_ = SteadyClock::now();
  received_unix_ms_ = host_.check_context().now_unix_ms;
  request_bytes_ = request_bytes;
  connection_ = host_.state().connections().Find(context_->peer());
  connection_->requests.fetch_add(1, std::memory_order_relaxed);
  connection_->request_bytes.fetch_add(request_bytes, std::memory_order_relaxed);
  if (host_.state().pool_gone()) {
    Answer(PoolGoneError());
    return false;
  }
  switch (host_.state().phase()) {
    case Phase::kServing: return true;
    case Phase::kRecovering: Answer(RecoveringError()); return false;
    case Phase::kDraining: Answer(DrainingError()); return false;
  }
  return false;
}

grpc::Status Call::Refuse(const Admission::Verdict& verdict) {
  host_.recorder().RecordRefusal(verdict.limit);
  return OverloadedError(verdict);
}

bool Call::Admit(uint64_t operations, uint64_t bytes) {
  const Admission::Verdict verdict =
      host_.state().admission().Take(*connection_, operations, bytes, held_);
  if (verdict.admitted) return true;
  Answer(Refuse(verdict));
  return false;
}

std::optional<grpc::Status> Call::Hold(uint64_t bytes, Admission::Held& held) {
  const Admission::Verdict verdict = host_.state().admission().Take(*connection_, 0, bytes, held);
  if (verdict.admitted) return std::nullopt;
  return Refuse(verdict);
}

bool Call::TryHold(uint64_t bytes, Admission::Held& held) {
  return host_.state().admission().Take(*connection_, 0, bytes, held).admitted;
}

void Call::NoteSessionBegun() {
  connection_->sessions.fetch_add(1, std::memory_order_relaxed);
  connection_->open_sessions.fetch_add(1, std::memory_order_relaxed);
  host_.state().NoteSessionBegun();
}

void Call::NoteSessionMessage(uint64_t wire_bytes) {
  connection_->session_messages.fetch_add(1, std::memory_order_relaxed);
  connection_->request_bytes.fetch_add(wire_bytes, std::memory_order_relaxed);
}

void Call::NoteSessionEnded() {
  connection_->open_sessions.fetch_sub(1, std::memory_order_relaxed);
  host_.state().NoteSessionEnded();
}

void Call::ReleaseAbove(Admission::Held& held, uint64_t bytes) {
  host_.state().admission().ReleaseAbove(*connection_, held, bytes);
}

void Call::ReleaseHeld(Admission::Held& held) {
  if (connection_ != nullptr) host_.state().admission().Release(*connection_, held);
}

void Call::AnswerPending() {
  pending_ = SteadyClock::now();
  host_.AwaitDelivery(*this);
}

void Call::AnswerDelivered(bool ok) {
  host_.NoteDelivered(*this);
  if (ok)
    connection_->last_delivery_ms.store(Milliseconds(SteadyClock::now()),
                                        std::memory_order_relaxed);
}

bool Call::ConnectionReadNothingSince(SteadyClock::time_point since) const {
  return connection_->last_delivery_ms.load(std::memory_order_relaxed) < Milliseconds(since);
}

void Call::Finished(grpc::StatusCode code, bool want_cost) {
  if (want_cost) {
    context_->AddTrailingMetadata(kCostTrailer, CostBytes(cost_, group_operations_, share_));
  }
  if (code == grpc::StatusCode::INVALID_ARGUMENT) {
    NoteInvalid(std::max(request_bytes_, BuiltBytes()));
  }
  const auto now = SteadyClock::now();
  const auto latency = std::chrono::duration_cast<std::chrono::nanoseconds>(now - start_).count();
  host_.NoteServed({.method = method_,
                    .code = code,
                    .latency_ns = static_cast<uint64_t>(latency),
                    .held_bytes = held_.bytes,
                    .cost = cost_,
                    .share = share_,
                    .group_operations = group_operations_});
}

void Call::Deliver() {
  if (failed()) return Answer(*std::exchange(failure_, std::nullopt));
  DeliverResult();
}

void Call::Release() {
  FreeResources();
  ReleaseHeld(held_);
  connection_.reset();
  cost_ = {};
  share_ = {};
  group_operations_ = 0;
  host_.Recycle(*this);
}

}  // namespace lodgekv::server
