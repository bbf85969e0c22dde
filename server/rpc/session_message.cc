#include "server/rpc/session_message.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <utility>

#include "lodgekv/v1/kv.pb.h"
#include "server/rpc/cost_share.h"

namespace lodgekv::server {
namespace {

// Operations for which a cleared message keeps its memory.
constexpr size_t kKeptOperations = 64;

// Of a message that may be refused before it is parsed: the id, if it is the first field, where
// protobuf writes it; else 0.
uint64_t LeadingId(grpc::ByteBuffer& wire) {
  using google::protobuf::internal::WireFormatLite;
  grpc::ProtoBufferReader reader(&wire);
  google::protobuf::io::CodedInputStream in(&reader);
  constexpr uint32_t kIdTag =
      WireFormatLite::MakeTag(v1::SessionRequest::kIdFieldNumber, WireFormatLite::WIRETYPE_VARINT);
  uint64_t id = 0;
  return in.ReadTag() == kIdTag && in.ReadVarint64(&id) ? id : 0;
}

template <class T>
void Empty(std::vector<T>& items) {
  items.clear();
  if (items.capacity() > kKeptOperations) std::vector<T>().swap(items);
}

}  // namespace

void SessionMessage::Parse(const CheckContext& context, Connection& connection) {
  connection_ = &connection;
  received_ = Clock::now();
  wire_bytes_ = request_.WireBytes();
  request_bytes_ = wire_bytes_;
  id_ = LeadingId(request_.from_wire());
  if (const auto invalid = request_.Parse(context.limits)) return Refuse(*invalid);
  id_ = request_.request().id;
  atomic_ = request_.request().atomic;
  want_cost_ = request_.want_cost();
  request_bytes_ = std::max(wire_bytes_, request_.BuiltBytes());
  if (const auto invalid = ToSessionOps(request_.request(), context, ops_, bytes_)) {
    return Refuse(*invalid);
  }
  operations_ = std::max<uint64_t>(1, ops_.size());
  gets_ = static_cast<uint64_t>(
      std::count_if(ops_.begin(), ops_.end(), [](const SessionOp& op) { return op.is_get; }));
  results_.resize(ops_.size());
}

void SessionMessage::KeepAnswerOnly() {
  request_.Clear();
  Empty(ops_);
  Empty(results_);
  served_ = 0;
}

void SessionMessage::Clear(Admission& admission) {
  if (connection_ != nullptr) admission.Release(*connection_, held);
  connection_ = nullptr;
  KeepAnswerOnly();
  operations_ = 1;
  atomic_ = false;
  want_cost_ = false;
  bytes_ = 0;
  gets_ = 0;
  error_.reset();
  left_out_error_.reset();
  cost = {};
  share = {};
  group_operations = 0;
  served_in_group = 0;
  weight_in_group = 0;
  answer_bytes = 0;
  answer.Clear();
}

uint64_t SessionMessage::HeldBytes() const {
  uint64_t bytes = request_.HeldBytes() + ops_.capacity() * sizeof(SessionOp) +
                   results_.capacity() * sizeof(SessionResult);
  for (const SessionResult& own : results_) bytes += own.result.value.capacity();
  return bytes;
}

void SessionMessage::SetWritten(size_t index, const WriteResult& result) {
  ReadResult& own = results_[index].result;
  own.outcome = result.outcome;
  own.found = result.found;
  own.version = result.version;
  NoteServed(index, result.outcome == Outcome::kOk ? BytesOf(ops_[index].op) : 0);
}

void SessionMessage::SetRead(size_t index, ReadResult&& result) {
  results_[index].result = std::move(result);
  NoteServed(index, 0);
}

void SessionMessage::Refuse(const grpc::Status& error) {
  error_ = error;
  KeepAnswerOnly();
  gets_ = 0;
}

void SessionMessage::LeaveOut(size_t index, const grpc::Status& error) {
  results_[index].left_out = true;
  if (!left_out_error_) left_out_error_ = error;
  NoteServed(index, 0);
}

// The weight as CostShare of kv.proto divides the cost of a group.
void SessionMessage::NoteServed(size_t index, uint64_t written_bytes) {
  results_[index].served = true;
  ++served_;
  ++served_in_group;
  weight_in_group += kOperationWeight + written_bytes;
}

}  // namespace lodgekv::server
