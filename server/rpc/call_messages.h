// The request and the answer of a call object, which serves one call after another.
//
// INVARIANT  Between Clear and the next request they hold at most kKeptBytes beyond their own size,
//            whatever was in them: a spare call object must not keep the memory of a client's
//            request.
#pragma once

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "lodgekv/v1/kv.pb.h"
#include "server/base/limits.h"
#include "server/rpc/batch_request.h"
#include "server/rpc/batch_wire.h"
#include "server/rpc/errors.h"

namespace lodgekv::server {

inline constexpr uint64_t kKeptBytes = 4 * kKiB;

// Removes unknown fields from a message: nothing reads them, but two bytes on the wire become 16
// bytes or more in memory, and the request may be queued for some time.
class UnknownDropper {
 public:
  explicit UnknownDropper(const google::protobuf::Reflection* reflection)
      : reflection_(*reflection) {}

  void Drop(google::protobuf::Message& message) const {
    if (reflection_.GetUnknownFields(message).empty()) return;
    google::protobuf::UnknownFieldSet().Swap(reflection_.MutableUnknownFields(&message));
  }

 private:
  const google::protobuf::Reflection& reflection_;
};

template <class Request>
void DropUnknown(Request& request) {
  UnknownDropper(Request::GetReflection()).Drop(request);
  const UnknownDropper of_ttl(google::protobuf::Duration::GetReflection());
  if constexpr (std::is_same_v<Request, v1::PutRequest>) {
    if (request.has_ttl()) of_ttl.Drop(*request.mutable_ttl());
  }
}

// The memory that a message's strings keep when it is cleared.
inline uint64_t KeptBy(const v1::GetRequest& message) { return message.key().capacity(); }
inline uint64_t KeptBy(const v1::GetResponse& message) { return message.value().capacity(); }
inline uint64_t KeptBy(const v1::PutRequest& message) {
  return message.key().capacity() + message.value().capacity();
}
inline uint64_t KeptBy(const v1::PutResponse&) { return 0; }
inline uint64_t KeptBy(const v1::DeleteRequest& message) { return message.key().capacity(); }
inline uint64_t KeptBy(const v1::DeleteResponse&) { return 0; }
inline uint64_t KeptBy(const v1::ScanRequest& message) {
  return message.start().capacity() + message.end().capacity() + message.prefix().capacity() +
         message.continuation().capacity();
}

// Frees what a message keeps if that is a lot.
template <class Message>
void ClearLarge(Message& message) {
  if (KeptBy(message) > kKeptBytes) Message().Swap(&message);
}

// For calls about one key: their few strings are reused, so that a small call allocates nothing.
// gRPC converts them from and to the wire.
template <class Request, class Response>
class KeptMessages {
 public:
  using ToWire = Response;

  // What gRPC fills when a request arrives.
  Request& from_wire() { return request_; }
  uint64_t WireBytes() const { return request_.ByteSizeLong(); }
  // Makes the request available. Nothing, or the error to answer with.
  std::optional<grpc::Status> Parse(const Limits&) {
    DropUnknown(request_);
    return std::nullopt;
  }
  const Response& ForWire() const { return response_; }

  const Request& request() const { return request_; }
  bool want_cost() const { return request_.want_cost(); }
  Response& response() { return response_; }

  void Clear() {
    ClearLarge(request_);
    ClearLarge(response_);
  }
  uint64_t HeldBytes() const { return request_.SpaceUsedLong() + response_.SpaceUsedLong(); }
  // A request of one key takes no more memory than bytes on the wire.
  static uint64_t BuiltBytes() { return 0; }

 private:
  Request request_;
  Response response_;
};

// For batches: what gRPC hands over and takes are bytes, of which the request is views
// (batch_request.h). Fields is BatchWriteFields, BatchGetFields or SessionFields.
//
// The bytes from the wire are in pieces, which keep more than themselves alive; Parse copies them
// into one when it has checked them. For each entry it takes the memory of its fields besides.
template <class Fields>
class BatchMessages {
 public:
  using ToWire = grpc::ByteBuffer;

  grpc::ByteBuffer& from_wire() { return wire_; }
  uint64_t WireBytes() const { return wire_.Length(); }
  // Frees the bytes from the wire in any case.
  std::optional<grpc::Status> Parse(const Limits& limits) {
    uint64_t entries = 0;
    std::optional<grpc::Status> error = CheckWire(limits, &entries);
    if (!error && !ParseBatch(Gather(), entries, &request_)) error = NotAMessageError();
    wire_.Clear();
    return error;
  }
  const grpc::ByteBuffer& ForWire() const { return answer_; }

  const Fields& request() const { return request_; }
  bool want_cost() const { return request_.want_cost; }
  // The answer as it goes onto the wire (batch_answer.h).
  grpc::ByteBuffer& response() { return answer_; }

  void Clear() {
    wire_.Clear();
    answer_.Clear();
    bytes_.reset();
    size_ = 0;
    if (EntryBytes() > kKeptBytes) decltype(request_.entries)().swap(request_.entries);
    request_.entries.clear();
    request_ = Fields{.entries = std::move(request_.entries)};
  }
  uint64_t BuiltBytes() const { return size_ + EntryBytes(); }
  uint64_t HeldBytes() const {
    return wire_.Length() + answer_.Length() + size_ + EntryBytes();
  }

 private:
  static constexpr BatchKind kKind = std::is_same_v<Fields, BatchWriteFields> ? BatchKind::kWrite
                                     : std::is_same_v<Fields, BatchGetFields> ? BatchKind::kGet
                                                                              : BatchKind::kSession;

  uint64_t EntryBytes() const {
    return request_.entries.capacity() * sizeof(*request_.entries.data());
  }
  std::optional<grpc::Status> CheckWire(const Limits& limits, uint64_t* entries) {
    grpc::ProtoBufferReader reader(&wire_);
    return CheckBatchOnWire(kKind, reader, limits, entries);
  }
  std::string_view Gather() {
    size_ = wire_.Length();
    bytes_ = std::make_unique_for_overwrite<char[]>(size_);
    grpc::ProtoBufferReader reader(&wire_);
    const void* piece = nullptr;
    int piece_bytes = 0;
    for (char* to = bytes_.get(); reader.Next(&piece, &piece_bytes); to += piece_bytes) {
      std::memcpy(to, piece, static_cast<size_t>(piece_bytes));
    }
    return {bytes_.get(), size_};
  }

  grpc::ByteBuffer wire_;
  std::unique_ptr<char[]> bytes_;
  uint64_t size_ = 0;
  Fields request_;
  grpc::ByteBuffer answer_;
};

}  // namespace lodgekv::server
