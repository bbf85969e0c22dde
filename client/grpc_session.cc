#include "client/grpc_session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lodgekv::client {
namespace {

void SetOperation(const SessionOp& op, v1::Operation& operation) {
  if (const auto* write = std::get_if<BatchOp>(&op)) return SetWrite(*write, operation);
  operation.set_kind(v1::OPERATION_KIND_GET);
  operation.set_key(std::get<GetOp>(op).key);
}

SessionResult ToSessionResult(v1::OperationResult& result) {
  absl::Status error = ToAbsl(result.error());
  if (!error.ok()) return error;
  return ToGetResult(result);
}

std::vector<SessionResult> ToResults(v1::SessionResponse& response) {
  std::vector<SessionResult> results;
  results.reserve(static_cast<size_t>(response.results_size()));
  for (auto& result : *response.mutable_results()) results.push_back(ToSessionResult(result));
  return results;
}

}  // namespace

GrpcSession::GrpcSession(v1::KvService::Stub& stub, const SessionOptions& options,
                         CostTaker on_cost)
    : most_unanswered_(std::max<uint64_t>(1, options.unanswered)), on_cost_(std::move(on_cost)) {
  SetDeadline(context_, options.timeout);
  stream_ = stub.Session(&context_);
  receiver_ = std::thread(&GrpcSession::Receive, this);
}

GrpcSession::~GrpcSession() {
  GrpcSession::Finish().IgnoreError();  // each `done` has been told
  receiver_.join();
}

absl::Status GrpcSession::Send(const std::vector<SessionOp>& operations, const SendOptions& options,
                               SessionDone done) {
  v1::SessionRequest request;
  request.mutable_operations()->Reserve(static_cast<int>(operations.size()));
  for (const SessionOp& op : operations) SetOperation(op, *request.add_operations());
  request.set_atomic(options.atomic);
  request.set_want_cost(on_cost_ != nullptr);
  const absl::MutexLock sending(&send_mutex_);
  absl::Status status = Enqueue({operations.size(), std::move(done)});
  if (!status.ok()) return status;
  request.set_id(++last_sent_id_);
  // False: the session ends, and so the message gets the status of that as the others do.
  stream_->Write(request);
  return absl::OkStatus();
}

absl::Status GrpcSession::Enqueue(Message message) {
  const absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &GrpcSession::HasRoomOrEnded));
  if (end_status_ && !end_status_->ok()) return *end_status_;
  if (finishing_) return absl::FailedPreconditionError("the session is finished");
  unanswered_.push_back(std::move(message));
  return absl::OkStatus();
}

bool GrpcSession::HasRoomOrEnded() const {
  return end_status_ || finishing_ || unanswered_.size() < most_unanswered_;
}

absl::Status GrpcSession::Finish() {
  {
    const absl::MutexLock sending(&send_mutex_);
    bool finishing_before;
    {
      const absl::MutexLock lock(&mutex_);
      finishing_before = std::exchange(finishing_, true);
    }
    // False: the session has ended, which the receiver reports.
    if (!finishing_before) stream_->WritesDone();
  }
  const absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&all_done_));
  return *end_status_;
}

void GrpcSession::Receive() {
  v1::SessionResponse response;
  absl::Status status;
  while (status.ok() && stream_->Read(&response)) status = Deliver(response);
  if (!status.ok()) context_.TryCancel();
  const grpc::Status end = stream_->Finish();
  End(status.ok() ? ToAbsl(end) : status);
}

// An answer that does not fit leaves in doubt what became of any message: UNKNOWN.
absl::Status GrpcSession::Deliver(v1::SessionResponse& response) {
  absl::Status error = ToAbsl(response.error());
  Message message;
  {
    const absl::MutexLock lock(&mutex_);
    if (unanswered_.empty() || response.id() != last_answered_id_ + 1) {
      return absl::UnknownError(absl::StrCat("the server answered message ", response.id(),
                                             " instead of ", last_answered_id_ + 1));
    }
    const auto results = static_cast<size_t>(response.results_size());
    if (const size_t operations = unanswered_.front().operations;
        error.ok() && results != operations) {
      return absl::UnknownError(absl::StrCat("the server answered ", operations,
                                             " operations of a message with ", results,
                                             " results"));
    }
    message = std::move(unanswered_.front());
    unanswered_.pop_front();
  }
  ++last_answered_id_;
  if (on_cost_ && response.has_cost()) on_cost_(response.cost());
  if (error.ok()) {
    message.done(ToResults(response));
  } else {
    message.done(std::move(error));
  }
  return absl::OkStatus();
}

void GrpcSession::End(absl::Status status) {
  std::deque<Message> unanswered;
  {
    const absl::MutexLock lock(&mutex_);
    if (status.ok() && !(finishing_ && unanswered_.empty())) {
      status = absl::UnknownError("the server ended the session before all was sent and answered");
    }
    if (!status.ok() && ErrorOf(status).reason.empty()) status.SetPayload(kSessionBrokenUrl, {});
    end_status_ = status;
    unanswered.swap(unanswered_);
  }
  // One after another, so that nothing that a `done` holds is left when Finish returns.
  for (; !unanswered.empty(); unanswered.pop_front()) unanswered.front().done(status);
  const absl::MutexLock lock(&mutex_);
  all_done_ = true;
}

}  // namespace lodgekv::client
