#include "server/rpc/session_call.h"

#include <algorithm>
#include <utility>

#include "server/rpc/errors.h"

namespace lodgekv::server {
namespace {

// A turn as long as a poller serves. Where a fence waits for a disk a turn is as long as a session
// may be, to share it.
constexpr uint64_t kShortTurn = kLongBatchOfWrites;
// Of a value, before a session has read any. What is read at once must fit into the memory that is
// left for answers.
constexpr uint64_t kAssumedValueBytes = kLongBytes;
// Of a refused message: its answer with the error's details, and what is kept of it.
constexpr uint64_t kRefusedBytes = 1280;

}  // namespace

void SessionCall::Listen(KvService& service, grpc::ServerCompletionQueue* queue) {
  state_ = State::kListening;
  context_.emplace();
  stream_.emplace(&*context_);
  service.RequestSession(&*context_, &*stream_, queue, queue, Tag());
}

void SessionCall::OnEvent(bool ok) {
  if (state_ == State::kListening) {
    if (!ok || host_.closed()) return Release();
    host_.ListenFor(Method::kSession);
    if (!Begin(0)) return;
    Open();
  } else {
    AnswerDelivered(ok);
    state_ = State::kEnded;
  }
  Advance();
}

void SessionCall::Open() {
  state_ = State::kOpen;
  received_all_ = false;
  end_status_ = grpc::Status::OK;
  value_bytes_.reset();
  NoteSessionBegun();
  host_.NoteOpened(*this);
}

void SessionCall::Answer(const grpc::Status& status) {
  if (state_ == State::kListening) Finished(status.error_code(), false);
  state_ = State::kEnding;
  stream_->Finish(status, Tag());
  AnswerPending();
}

void SessionCall::Drain() {
  if (state_ != State::kOpen || received_all_) return;
  received_all_ = true;
  end_status_ = DrainingError();
  Advance();
}

void SessionCall::Advance() {
  if (state_ == State::kOpen && host_.closed()) Break();
  if (state_ == State::kOpen) {
    AdmitWaiting();
    BeginTurn();
    SendNext();
    ReadNext();
    if (received_all_ && AllAnswered()) Answer(end_status_);
  }
  if (state_ == State::kEnded && !reading_ && !writing_ && !turn_out_) Release();
}

void SessionCall::OnRead(bool ok) {
  std::unique_ptr<SessionMessage> message = std::move(reading_);
  if (!ok) received_all_ = true;
  if (state_ == State::kOpen && !received_all_) Receive(std::move(message));
  Advance();
}

void SessionCall::Receive(std::unique_ptr<SessionMessage> message) {
  message->Parse(host_.check_context(), CallerConnection());
  NoteSessionMessage(message->wire_bytes());
  operations_ += message->operations();
  bytes_ += message->wire_bytes();
  waiting_ = std::move(message);
}

// What the session itself has in flight is no reason to refuse a message: it waits for that, if
// there is room for what waits. So does one that is refused already: until its answer is read it
// takes as much memory as others.
void SessionCall::AdmitWaiting() {
  if (!waiting_) return;
  const bool own_work = operations_ > waiting_->operations();
  Admission::Verdict verdict = Take(*waiting_);
  if (!verdict.admitted && !waiting_->error() && !(own_work && MayWait(*waiting_))) {
    waiting_->Refuse(Refuse(verdict));
    verdict = Take(*waiting_);
  }
  if (!verdict.admitted && own_work) return;
  host_.state().admission().EndWait(CallerConnection(), waiting_->held);
  received_.push_back(std::move(waiting_));
}

Admission::Verdict SessionCall::Take(SessionMessage& message) {
  const bool refused = message.error().has_value();
  return host_.state().admission().Take(CallerConnection(), refused ? 1 : message.operations(),
                                        refused ? kRefusedBytes : message.bytes(), message.held);
}

bool SessionCall::MayWait(SessionMessage& message) {
  return message.held.waiting_bytes != 0 ||
         host_.state().admission().Wait(CallerConnection(), message.HeldBytes(), message.held);
}

void SessionCall::BeginTurn() {
  if (turn_out_ || received_.empty() || unsent_bytes_ >= MostBytes()) return;
  do {
    turn_.Add(std::move(received_.front()));
    received_.pop_front();
  } while (!received_.empty() && FitsIntoTurn(*received_.front()));
  turn_out_ = true;
  host_.Enqueue(turn_, turn_.IsLong(value_bytes_.value_or(0)));
}

bool SessionCall::FitsIntoTurn(const SessionMessage& message) const {
  if (turn_.atomic() || message.atomic()) return false;
  const ServerState& state = host_.state();
  const uint64_t most = state.long_fences() ? state.config().session_operations : kShortTurn;
  const uint64_t value_bytes = value_bytes_.value_or(kAssumedValueBytes);
  return turn_.operations() + message.operations() <= most &&
         (turn_.gets() + message.gets()) * value_bytes <= MostBytes();
}

void SessionCall::DeliverTurn() {
  turn_out_ = false;
  auto messages = turn_.Take();
  const bool pool_gone = host_.state().pool_gone();
  // What took effect counts, also if the client has left.
  if (!pool_gone) {
    for (const auto& message : messages) Record(*message);
  }
  if (state_ == State::kOpen && pool_gone) {
    DropAll();
    received_all_ = true;
    end_status_ = PoolGoneError();
  } else if (state_ == State::kOpen) {
    NoteValueBytes(messages);
    for (auto& message : messages) {
      message->KeepAnswerOnly();
      unsent_bytes_ += message->answer.Length();
      answered_.push_back(std::move(message));
    }
    messages.clear();
  }
  for (auto& message : messages) Drop(std::move(message));
  Advance();
}

void SessionCall::NoteValueBytes(const std::vector<std::unique_ptr<SessionMessage>>& messages) {
  uint64_t largest = 0;
  bool any = false;
  for (const auto& message : messages) {
    if (message->gets() == 0) continue;
    any = true;
    largest = std::max(largest, message->answer_bytes / message->gets());
  }
  if (any) value_bytes_ = largest;
}

void SessionCall::Record(const SessionMessage& message) {
  const grpc::StatusCode code =
      message.error() ? message.error()->error_code() : grpc::StatusCode::OK;
  if (code == grpc::StatusCode::INVALID_ARGUMENT) NoteInvalid(message.request_bytes());
  RpcRecorder& recorder = host_.recorder();
  recorder.RecordSession(message.ops().size());
  for (size_t i = 0; i < message.ops().size(); ++i) {
    if (message.ops()[i].is_get) continue;
    const ReadResult& result = message.results()[i].result;
    recorder.RecordWrite(message.ops()[i].op, {result.outcome, result.found, result.version});
  }
  const auto latency = SteadyClock::now() - message.received();
  host_.NoteServed({.method = method(),
                    .code = code,
                    .latency_ns = static_cast<uint64_t>(
                        std::chrono::duration_cast<std::chrono::nanoseconds>(latency).count()),
                    .held_bytes = message.held.bytes,
                    .cost = message.cost,
                    .share = message.share,
                    .group_operations = message.group_operations});
}

// With others behind it an answer may wait for them, to be sent with them.
void SessionCall::SendNext() {
  if (writing_ || answered_.empty()) return;
  writing_ = std::move(answered_.front());
  answered_.pop_front();
  grpc::WriteOptions options;
  if (!answered_.empty()) options.set_buffer_hint();
  stream_->Write(writing_->answer, options, write_event_.Tag());
  AnswerPending();
}

void SessionCall::OnWritten(bool ok) {
  AnswerDelivered(ok);
  unsent_bytes_ -= writing_->answer.Length();
  Drop(std::move(writing_));
  if (!ok && state_ == State::kOpen) Break();
  Advance();
}

void SessionCall::ReadNext() {
  if (reading_ || received_all_ || !HasRoom()) return;
  reading_ = spare_ ? std::move(spare_) : std::make_unique<SessionMessage>();
  stream_->Read(&reading_->from_wire(), read_event_.Tag());
}

bool SessionCall::HasRoom() const {
  return !waiting_ && operations_ < host_.state().config().session_operations &&
         bytes_ < MostBytes() && unsent_bytes_ < MostBytes();
}

uint64_t SessionCall::MostBytes() const { return host_.state().limits().max_batch_size; }

bool SessionCall::AllAnswered() const {
  return !waiting_ && received_.empty() && !turn_out_ && answered_.empty() && !writing_;
}

void SessionCall::Break() {
  state_ = State::kEnded;
  DropAll();
  Cancel();
}

void SessionCall::DropAll() {
  if (waiting_) Drop(std::move(waiting_));
  for (auto& message : received_) Drop(std::move(message));
  received_.clear();
  for (auto& message : answered_) {
    unsent_bytes_ -= message->answer.Length();
    Drop(std::move(message));
  }
  answered_.clear();
}

void SessionCall::Drop(std::unique_ptr<SessionMessage> message) {
  operations_ -= message->operations();
  bytes_ -= message->wire_bytes();
  message->Clear(host_.state().admission());
  spare_ = std::move(message);
}

void SessionCall::FreeResources() {
  if (host_.NoteClosed(*this)) NoteSessionEnded();
  stream_.reset();
  context_.reset();
  spare_.reset();
}

}  // namespace lodgekv::server
