#include "server/rpc/scan_call.h"

#include <utility>

#include "index/cost.h"
#include "server/rpc/call_messages.h"
#include "server/rpc/errors.h"

namespace lodgekv::server {

void ScanCall::Listen(KvService& service, grpc::ServerCompletionQueue* queue) {
  state_ = State::kListening;
  context_.emplace();
  writer_.emplace(&*context_);
  service.RequestScan(&*context_, &request_, &*writer_, queue, queue, Tag());
}

void ScanCall::OnEvent(bool ok) {
  if (state_ != State::kListening) AnswerDelivered(ok);
  if (!ok || host_.closed()) {
    // The client disconnected during the stream, or read nothing. A call object that never got a
    // request has served nothing.
    if (state_ == State::kLaterPage) Finished(grpc::StatusCode::CANCELLED, false);
    return Release();
  }
  switch (state_) {
    case State::kListening: host_.ListenFor(Method::kScan); return Accept();
    case State::kFirstPage: break;  // no event arrives in this state
    case State::kLaterPage: ReleaseHeld(page_held_); return host_.Enqueue(*this);
    case State::kFinishing: break;
  }
  Release();
}

void ScanCall::Accept() {
  const uint64_t bytes = request_.ByteSizeLong();
  DropUnknown(request_);
  want_cost_ = request_.want_cost();
  if (!Begin(bytes)) return;
  pager_.emplace();
  if (const auto error = pager_->Start(request_, host_.check_context())) return Answer(*error);
  if (!Admit(1, bytes)) return;
  ClearLarge(request_);  // the pager has copied what it needs
  state_ = State::kFirstPage;
  host_.Enqueue(*this);
}

bool ScanCall::ServePage(Engine& engine, PageMessage& message, bool stopping) {
  if (DeadlinePassed(std::chrono::system_clock::now())) {
    Answer(DeadlinePassedError());
    return true;
  }
  // Room for the largest page is taken before the page is read; what it does not need is released
  // then.
  const uint64_t most = pager_->MostBytes(host_.check_context().limits);
  if (state_ == State::kFirstPage) {
    if (const auto error = Hold(most, page_held_)) {
      Answer(*error);
      return true;
    }
  } else if (!stopping && !TryHold(most, page_held_)) {
    return false;
  }
  v1::ScanResponse& page = message.ForNext();
  if (const auto error = ReadPage(engine, message, page)) {
    Answer(*error);
  } else {
    SendPage(page);
  }
  return true;
}

std::optional<grpc::Status> ScanCall::ReadPage(Engine& engine, PageMessage& message,
                                               v1::ScanResponse& page) {
  const Cost before = ThreadCost();
  const Outcome outcome = pager_->NextPage(engine, host_.check_context().now_unix_ms, &page);
  const Cost cost = ThreadCost() - before;
  AddCost(cost, 1, cost);
  if (outcome != Outcome::kOk) return FromReadOutcome(outcome, -1);
  if (host_.state().pool_gone()) return PoolGoneError();
  message.NoteBytes(pager_->page_bytes());
  ReleaseAbove(page_held_, pager_->page_bytes());
  return std::nullopt;
}

// gRPC has its own copy of the page when it returns.
void ScanCall::SendPage(const v1::ScanResponse& page) {
  if (!pager_->done()) {
    state_ = State::kLaterPage;
    writer_->Write(page, Tag());
  } else {
    state_ = State::kFinishing;
    Finished(grpc::StatusCode::OK, want_cost_);
    writer_->WriteAndFinish(page, grpc::WriteOptions(), grpc::Status::OK, Tag());
  }
  AnswerPending();
}

void ScanCall::Answer(const grpc::Status& status) {
  state_ = State::kFinishing;
  Finished(status.error_code(), want_cost_);
  writer_->Finish(status, Tag());
  ClearLarge(request_);
  AnswerPending();
}

void ScanCall::FreeResources() {
  ReleaseHeld(page_held_);
  writer_.reset();
  context_.reset();
  pager_.reset();
  ClearLarge(request_);
}

}  // namespace lodgekv::server
