#include "server/rpc/scan_call.h"

#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>

#include <utility>

#include "index/cost.h"
#include "server/rpc/call_messages.h"
#include "server/rpc/errors.h"

namespace lodgekv::server {
namespace {

constexpr uint64_t kItemsOfAShortPage = 128;

// Nothing reads them, but two bytes on the wire become 16 bytes or more in memory, and the request
// may be queued for some time.
void DropUnknownFields(v1::ScanRequest& request) {
  const google::protobuf::Reflection& reflection = *v1::ScanRequest::GetReflection();
  if (reflection.GetUnknownFields(request).empty()) return;
  google::protobuf::UnknownFieldSet().Swap(reflection.MutableUnknownFields(&request));
}

// Frees what its strings keep if that is a lot.
void ClearLarge(v1::ScanRequest& request) {
  const uint64_t kept = request.start().capacity() + request.end().capacity() +
                        request.prefix().capacity() + request.continuation().capacity();
  if (kept > kKeptBytes) v1::ScanRequest().Swap(&request);
}

}  // namespace

void ScanCall::Listen(KvService& service, grpc::ServerCompletionQueue* queue) {
  state_ = State::kListening;
  context_.emplace();
  writer_.emplace(&*context_);
  service.RequestScan(&*context_, &wire_, &*writer_, queue, queue, Tag());
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
  const uint64_t bytes = wire_.Length();
  if (!Begin(bytes)) return;
  const bool parsed =
      grpc::SerializationTraits<v1::ScanRequest>::Deserialize(&wire_, &request_).ok();
  wire_.Clear();
  if (!parsed) return Answer(NotAMessageError());
  DropUnknownFields(request_);
  want_cost_ = request_.want_cost();
  pager_.emplace();
  if (const auto error = pager_->Start(request_, host_.check_context())) return Answer(*error);
  if (!Admit(1, bytes)) return;
  ClearLarge(request_);  // the pager has copied what it needs
  state_ = State::kFirstPage;
  host_.Enqueue(*this);
}

bool ScanCall::IsShort() const {
  return IsFirstPage() && pager_->NextItems() <= kItemsOfAShortPage;
}

bool ScanCall::ReadPage(Engine& engine, uint64_t now_unix_ms, bool stopping) {
  if (DeadlinePassed(std::chrono::system_clock::now())) {
    Fail(DeadlinePassedError());
    return true;
  }
  // Room for the largest page is taken before the page is read; what it does not need is released
  // then.
  const uint64_t most = pager_->MostBytes(host_.state().limits());
  if (IsFirstPage()) {
    if (const auto error = Hold(most, page_held_)) {
      Fail(*error);
      return true;
    }
  } else if (!stopping && !TryHold(most, page_held_)) {
    return false;
  }
  MakePage(engine, now_unix_ms);
  return true;
}

void ScanCall::MakePage(Engine& engine, uint64_t now_unix_ms) {
  PageWriter page;
  const Cost before = ThreadCost();
  const Outcome outcome =
      pager_->NextPage(engine, now_unix_ms, IsShort() ? kLongBytes : UINT64_MAX, page);
  const Cost cost = ThreadCost() - before;
  AddCost(cost, 1, cost);
  if (outcome != Outcome::kOk) return Fail(FromReadOutcome(outcome, -1));
  ReleaseAbove(page_held_, pager_->page_bytes());
  page_ = page.Take();
}

void ScanCall::DeliverResult() {
  if (host_.state().pool_gone()) return Answer(PoolGoneError());
  SendPage();
}

// gRPC shares the page's bytes when it returns.
void ScanCall::SendPage() {
  if (!pager_->done()) {
    state_ = State::kLaterPage;
    writer_->Write(page_, Tag());
  } else {
    state_ = State::kFinishing;
    Finished(grpc::StatusCode::OK, want_cost_);
    writer_->WriteAndFinish(page_, grpc::WriteOptions(), grpc::Status::OK, Tag());
  }
  page_.Clear();
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
  wire_.Clear();
  page_.Clear();
  ClearLarge(request_);
}

}  // namespace lodgekv::server
