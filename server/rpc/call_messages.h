// The request and the answer of a call object, which serves one call after another.
//
// INVARIANT  Between Clear and the next request they hold at most kKeptBytes beyond their own size,
//            whatever was in them: a spare call object must not keep the memory of a client's
//            request.
#pragma once

#include <google/protobuf/arena.h>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "lodgekv/v1/kv.pb.h"
#include "server/base/limits.h"
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
  if constexpr (std::is_same_v<Request, v1::BatchWriteRequest>) {
    const UnknownDropper of_operation(v1::Operation::GetReflection());
    for (v1::Operation& operation : *request.mutable_operations()) {
      of_operation.Drop(operation);
      if (operation.has_ttl()) of_ttl.Drop(*operation.mutable_ttl());
    }
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

  Request& request() { return request_; }
  const Request& request() const { return request_; }
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

// For batches: protobuf would keep each element that ever was in a message, and measuring that
// takes as long as freeing it. So everything is in an arena, of which only the first block is kept.
//
// The bytes from the wire are kept until Parse has checked them: the request then takes the bytes
// of its keys and values once more, and for each operation the memory of kMaxFieldsOfAMessage
// fields.
template <class Request, class Response>
class ArenaMessages {
 public:
  using ToWire = grpc::ByteBuffer;

  grpc::ByteBuffer& from_wire() { return wire_; }
  uint64_t WireBytes() const { return wire_.Length(); }
  // Frees the bytes from the wire in any case.
  std::optional<grpc::Status> Parse(const Limits& limits) {
    std::optional<grpc::Status> error = CheckWire(limits);
    if (!error && !grpc::SerializationTraits<Request>::Deserialize(&wire_, request_).ok()) {
      error = NotAMessageError();
    }
    wire_.Clear();
    if (!error) DropUnknown(*request_);
    return error;
  }
  grpc::ByteBuffer ForWire() const {
    grpc::ByteBuffer wire;
    bool own = false;
    // Fails only above 2 GiB, and the limits of a batch apply to its answer, too.
    (void)grpc::SerializationTraits<Response>::Serialize(*response_, &wire, &own);
    return wire;
  }

  ArenaMessages() : arena_(Options()) { Make(); }
  ArenaMessages(const ArenaMessages&) = delete;
  ArenaMessages& operator=(const ArenaMessages&) = delete;

  Request& request() { return *request_; }
  const Request& request() const { return *request_; }
  Response& response() { return *response_; }

  void Clear() {
    wire_.Clear();
    arena_.Reset();
    Make();
  }
  uint64_t BuiltBytes() const { return arena_.SpaceUsed(); }
  uint64_t HeldBytes() const {
    return wire_.Length() + arena_.SpaceAllocated() + request_->SpaceUsedLong() +
           response_->SpaceUsedLong();
  }

 private:
  static constexpr size_t kBlockBytes = 64 * kKiB;

  google::protobuf::ArenaOptions Options() {
    google::protobuf::ArenaOptions options;
    options.initial_block = first_block_.data();
    options.initial_block_size = first_block_.size();
    options.max_block_size = kBlockBytes;
    return options;
  }
  std::optional<grpc::Status> CheckWire(const Limits& limits) {
    constexpr bool kWrite = std::is_same_v<Request, v1::BatchWriteRequest>;
    grpc::ProtoBufferReader reader(&wire_);
    return CheckBatchOnWire(kWrite ? BatchKind::kWrite : BatchKind::kGet, reader, limits);
  }
  void Make() {
    request_ = google::protobuf::Arena::CreateMessage<Request>(&arena_);
    response_ = google::protobuf::Arena::CreateMessage<Response>(&arena_);
  }

  grpc::ByteBuffer wire_;
  alignas(std::max_align_t) std::array<char, kKeptBytes> first_block_;
  google::protobuf::Arena arena_;
  Request* request_ = nullptr;
  Response* response_ = nullptr;
};

}  // namespace lodgekv::server
