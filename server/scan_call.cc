#include "server/scan_call.h"

#include <utility>

#include "index/cost.h"
#include "server/poller.h"
#include "server/status_map.h"

namespace lodgekv::server {

void ScanCall::Listen() {
  state_ = State::kListening;
  context_.emplace();
  writer_.emplace(&*context_);
  page_bytes_held_ = 0;
  poller_.service().RequestScan(&*context_, &request_, &*writer_, poller_.queue(), poller_.queue(),
                                Tag());
}

void ScanCall::OnEvent(bool ok) {
  if (!ok || poller_.closed()) {
    // A client that went away in the middle; a listener that was never used has served nothing.
    if (state_ == State::kWritingPage) Finished(grpc::StatusCode::CANCELLED, false);
    return Release();
  }
  switch (state_) {
    case State::kListening: poller_.ListenFor(Method::kScan); return Accept();
    case State::kWritingPage: return SendPage();
    case State::kFinishing: return Release();
  }
}

void ScanCall::Accept() {
  if (!Admit(1, request_.ByteSizeLong())) return;
  if (const auto error = pager_.Start(request_, poller_.check_context())) return Answer(*error);
  SendPage();
}

void ScanCall::SendPage() {
  if (DeadlinePassed(std::chrono::system_clock::now())) return Answer(server::DeadlinePassed());
  GiveBack(std::exchange(page_bytes_held_, 0));
  const Cost before = ThreadCost();
  const Outcome outcome =
      pager_.NextPage(poller_.state().store()->engine(), poller_.now_unix_ms(), &page_);
  const Cost cost = ThreadCost() - before;
  AddCost(cost, 1, cost);
  if (outcome != Outcome::kOk) return Answer(FromReadOutcome(outcome, -1));
  page_bytes_held_ = pager_.page_bytes();
  Hold(page_bytes_held_);
  if (!pager_.done()) {
    state_ = State::kWritingPage;
    return writer_->Write(page_, Tag());
  }
  state_ = State::kFinishing;
  Finished(grpc::StatusCode::OK, request_.want_cost());
  writer_->WriteAndFinish(page_, grpc::WriteOptions(), grpc::Status::OK, Tag());
}

void ScanCall::Answer(const grpc::Status& status) {
  state_ = State::kFinishing;
  Finished(status.error_code(), request_.want_cost());
  writer_->Finish(status, Tag());
}

}  // namespace lodgekv::server
