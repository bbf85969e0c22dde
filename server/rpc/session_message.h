// One message of a session, from its receipt until its answer has been delivered.
//
// INVARIANT  It belongs to its session's poller, but while the turn that it is part of
//            (session_turn.h) is with WorkThreads.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "index/cost.h"
#include "index/engine.h"
#include "server/base/connection.h"
#include "server/rpc/admission.h"
#include "server/rpc/batch_request.h"
#include "server/rpc/call_messages.h"
#include "server/rpc/request_check.h"

namespace lodgekv::server {

struct SessionResult {
  // Of a write its outcome, found and version are set.
  ReadResult result;
  // A get that was left out, for SessionMessage::left_out_error.
  bool left_out = false;
  // The operation has been done, or left out.
  bool served = false;
};

class SessionMessage {
 public:
  using Clock = std::chrono::steady_clock;

  // What gRPC receives into.
  grpc::ByteBuffer& from_wire() { return request_.from_wire(); }
  // It has been received. Refuses it if it is invalid.
  void Parse(const CheckContext& context, Connection& connection);
  // It has been served, and recorded: frees all but the answer, however long the client takes to
  // read that.
  void KeepAnswerOnly();
  // Empty again, and holds nothing of the admission.
  void Clear(Admission& admission);

  uint64_t id() const { return id_; }
  bool atomic() const { return atomic_; }
  bool want_cost() const { return want_cost_; }
  Connection& connection() const { return *connection_; }
  Clock::time_point received() const { return received_; }
  uint64_t wire_bytes() const { return wire_bytes_; }
  // On the wire or in memory, whichever is larger.
  uint64_t request_bytes() const { return request_bytes_; }
  // Of keys and values.
  uint64_t bytes() const { return bytes_; }
  uint64_t gets() const { return gets_; }
  uint64_t writes() const { return ops_.size() - gets_; }
  // What it counts in the limits: an empty message, too, is one.
  uint64_t operations() const { return operations_; }

  // Those of a refused message are none.
  const std::vector<SessionOp>& ops() const { return ops_; }
  std::vector<SessionResult>& results() { return results_; }
  const std::vector<SessionResult>& results() const { return results_; }
  void SetWritten(size_t index, const WriteResult& result);
  void SetRead(size_t index, ReadResult&& result);
  void LeaveOut(size_t index, const grpc::Status& error);
  // Whether all operations have been served; of a refused message there are none.
  bool served() const { return served_ == ops_.size(); }

  // The whole message is refused: nothing of it is done. Frees the request.
  void Refuse(const grpc::Status& error);
  const std::optional<grpc::Status>& error() const { return error_; }
  // What the answer says about gets that were left out.
  const std::optional<grpc::Status>& left_out_error() const { return left_out_error_; }

  // Besides what gRPC has of it.
  Admission::Held held;
  // Of the groups that it was part of, and its share.
  Cost cost;
  Cost share;
  uint64_t group_operations = 0;
  // What was served in the group at hand: the measure of its share.
  uint64_t served_in_group = 0;
  uint64_t weight_in_group = 0;
  // Of the values read.
  uint64_t answer_bytes = 0;
  grpc::ByteBuffer answer;

  // Of memory, besides the answer.
  uint64_t HeldBytes() const;

 private:
  void NoteServed(size_t index, uint64_t written_bytes);

  BatchMessages<SessionFields> request_;
  Connection* connection_ = nullptr;
  Clock::time_point received_;
  uint64_t id_ = 0;
  uint64_t operations_ = 1;
  bool atomic_ = false;
  bool want_cost_ = false;
  uint64_t wire_bytes_ = 0;
  uint64_t request_bytes_ = 0;
  uint64_t bytes_ = 0;
  uint64_t gets_ = 0;
  size_t served_ = 0;           // operations
  std::vector<SessionOp> ops_;  // refer to the request
  std::vector<SessionResult> results_;
  std::optional<grpc::Status> error_;
  std::optional<grpc::Status> left_out_error_;
};

}  // namespace lodgekv::server
