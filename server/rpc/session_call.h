// The call Session: a stream of messages, each answered in the order sent.
//
// Messages are received while others are being served, until so many operations or bytes of the
// session are unanswered (session_operations, max_batch_size): then the next one is left to
// HTTP/2's flow control. What has been received goes to the engine in turns (session_turn.h), one
// at a time, and the answers are sent one after another. A client that does not read them is
// cancelled as one that does not read the answer of any other call.
//
// INVARIANT  Used only by the poller's thread, but for GiveBackTurn; the turn is with another
//            thread while turn_out_.
//            At most one read and one write are with gRPC; the call is released when none is, and
//            no turn is out.
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/async_stream.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "server/base/event.h"
#include "server/rpc/admission.h"
#include "server/rpc/call.h"
#include "server/rpc/session_message.h"
#include "server/rpc/session_turn.h"

namespace lodgekv::server {

class SessionCall final : public Call, private TurnHost {
 public:
  explicit SessionCall(CallHost& host) : Call(host, Method::kSession) {}

  void Listen(KvService& service, grpc::ServerCompletionQueue* queue) override;
  // The client has called, or the end of the stream has been sent.
  void OnEvent(bool ok) override;
  void Answer(const grpc::Status& status) override;

  // The server is shutting down: answers what has been received, and ends the session.
  void Drain();

 private:
  enum class State {
    kListening,
    kOpen,
    kEnding,  // the end of the stream has been handed to gRPC
    kEnded,   // nothing more is received or sent
  };

  bool TurnIsLight() const override { return ConnectionIsLight(); }
  void DeliverTurn() override;
  void GiveBackTurn() override { host_.GiveBack(turn_); }

  void OnRead(bool ok);
  void OnWritten(bool ok);
  void DeliverResult() override {}
  void FreeResources() override;

  void Open();
  // Does all that can be done now; may release the call.
  void Advance();
  void Receive(std::unique_ptr<SessionMessage> message);
  void AdmitWaiting();
  Admission::Verdict Take(SessionMessage& message);
  bool MayWait(SessionMessage& message);
  void BeginTurn();
  bool FitsIntoTurn(const SessionMessage& message) const;
  void NoteValueBytes(const std::vector<std::unique_ptr<SessionMessage>>& messages);
  void Record(const SessionMessage& message);
  void SendNext();
  void ReadNext();
  bool HasRoom() const;
  // Of requests, and of answers, that the session may have.
  uint64_t MostBytes() const;
  bool AllAnswered() const;
  // The client is gone.
  void Break();
  void DropAll();
  void Drop(std::unique_ptr<SessionMessage> message);

  State state_ = State::kListening;
  std::optional<grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>> stream_;
  MemberEvent<SessionCall, &SessionCall::OnRead> read_event_{*this};
  MemberEvent<SessionCall, &SessionCall::OnWritten> write_event_{*this};
  std::unique_ptr<SessionMessage> reading_;  // with gRPC
  std::unique_ptr<SessionMessage> writing_;  // likewise
  std::unique_ptr<SessionMessage> waiting_;  // received, without room in the admission
  std::deque<std::unique_ptr<SessionMessage>> received_;
  SessionTurn turn_{*this};
  bool turn_out_ = false;
  std::deque<std::unique_ptr<SessionMessage>> answered_;
  std::unique_ptr<SessionMessage> spare_;
  // The client sends no more, or the server receives no more; ended then, when all is answered.
  bool received_all_ = false;
  grpc::Status end_status_;
  // Of messages received, until their answers have been delivered.
  uint64_t operations_ = 0;
  uint64_t bytes_ = 0;
  // Of answers made and not yet delivered.
  uint64_t unsent_bytes_ = 0;
  // Of a value, by the last turn that read any.
  std::optional<uint64_t> value_bytes_;
};

}  // namespace lodgekv::server
