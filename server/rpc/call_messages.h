// The request and the answer of a call object, which serves one call after another.
//
// INVARIANT  Between Clear and the next request they hold at most kKeptBytes beyond their own size,
//            whatever was in them: a spare call object must not keep the memory of a client's
//            request.
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "server/base/limits.h"
#include "server/rpc/batch_request.h"
#include "server/rpc/batch_wire.h"
#include "server/rpc/errors.h"

namespace lodgekv::server {

inline constexpr uint64_t kKeptBytes = 4 * kKiB;

// The bytes of a request in one piece. Those from the wire are in pieces, which keep more than
// themselves alive.
class GatheredBytes {
 public:
  // Takes them from the wire.
  std::string_view Gather(grpc::ByteBuffer& wire) {
    size_ = wire.Length();
    if (size_ > capacity_) {
      bytes_ = std::make_unique_for_overwrite<char[]>(size_);
      capacity_ = size_;
    }
    grpc::ProtoBufferReader reader(&wire);
    const void* piece = nullptr;
    int piece_bytes = 0;
    for (char* to = bytes_.get(); reader.Next(&piece, &piece_bytes); to += piece_bytes) {
      // An empty message may be an empty piece, and takes no memory to copy it to.
      if (piece_bytes != 0) std::memcpy(to, piece, static_cast<size_t>(piece_bytes));
    }
    wire.Clear();
    return {bytes_.get(), size_};
  }
  void Clear() {
    size_ = 0;
    if (capacity_ <= kKeptBytes) return;
    bytes_.reset();
    capacity_ = 0;
  }
  uint64_t size() const { return size_; }
  uint64_t capacity() const { return capacity_; }

 private:
  std::unique_ptr<char[]> bytes_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

// For calls about one key; `parse` is that of the call's request (batch_request.h). The space of
// small requests is reused.
template <bool (*parse)(std::string_view, PointFields*)>
class PointMessages {
 public:
  using ToWire = grpc::ByteBuffer;

  grpc::ByteBuffer& from_wire() { return wire_; }
  // Until it is parsed.
  uint64_t WireBytes() const { return wire_.Length(); }
  // Makes the request available, and frees the bytes from the wire. Nothing, or the error to answer
  // with.
  std::optional<grpc::Status> Parse(const Limits&) {
    if (parse(bytes_.Gather(wire_), &request_)) return std::nullopt;
    return NotAMessageError();
  }
  // Of what was parsed.
  uint64_t RequestBytes() const { return bytes_.size(); }
  const grpc::ByteBuffer& ForWire() const { return answer_; }

  const PointFields& request() const { return request_; }
  bool want_cost() const { return request_.want_cost; }
  // The answer as it goes onto the wire (point_answer.h).
  grpc::ByteBuffer& response() { return answer_; }

  void Clear() {
    wire_.Clear();
    answer_.Clear();
    bytes_.Clear();
    request_ = {};
  }
  uint64_t HeldBytes() const { return wire_.Length() + answer_.Length() + bytes_.capacity(); }
  // A request of one key takes no more memory than bytes on the wire.
  static uint64_t BuiltBytes() { return 0; }

 private:
  grpc::ByteBuffer wire_;
  GatheredBytes bytes_;
  PointFields request_;
  grpc::ByteBuffer answer_;
};

// For batches: what gRPC hands over and takes are bytes, of which the request is views
// (batch_request.h). Fields is BatchWriteFields, BatchGetFields or SessionFields.
//
// Check is cheap beside Build, which gathers the bytes and takes the memory of each entry's fields
// besides. Any thread that has the call may do either.
template <class Fields>
class BatchMessages {
 public:
  using ToWire = grpc::ByteBuffer;

  grpc::ByteBuffer& from_wire() { return wire_; }
  // Until it is built.
  uint64_t WireBytes() const { return wire_.Length(); }
  // Nothing, or the error to answer with; then the bytes from the wire are freed.
  std::optional<grpc::Status> Check(const Limits& limits) {
    grpc::ProtoBufferReader reader(&wire_);
    std::optional<grpc::Status> error = CheckBatchOnWire(kKind, reader, limits, &entries_);
    if (error) wire_.Clear();
    return error;
  }
  // Operations or keys of a request that has been checked.
  uint64_t entries() const { return entries_; }
  // Makes a request that has been checked available. Frees the bytes from the wire in any case.
  std::optional<grpc::Status> Build() {
    if (ParseBatch(bytes_.Gather(wire_), entries_, &request_)) return std::nullopt;
    return NotAMessageError();
  }
  std::optional<grpc::Status> Parse(const Limits& limits) {
    if (auto error = Check(limits)) return error;
    return Build();
  }
  const grpc::ByteBuffer& ForWire() const { return answer_; }

  const Fields& request() const { return request_; }
  bool want_cost() const { return request_.want_cost; }
  // The answer as it goes onto the wire (batch_answer.h).
  grpc::ByteBuffer& response() { return answer_; }

  void Clear() {
    wire_.Clear();
    answer_.Clear();
    bytes_.Clear();
    if (EntryBytes() > kKeptBytes) decltype(request_.entries)().swap(request_.entries);
    request_.entries.clear();
    request_ = Fields{.entries = std::move(request_.entries)};
  }
  uint64_t BuiltBytes() const { return bytes_.size() + EntryBytes(); }
  uint64_t HeldBytes() const {
    return wire_.Length() + answer_.Length() + bytes_.capacity() + EntryBytes();
  }

 private:
  static constexpr BatchKind kKind = std::is_same_v<Fields, BatchWriteFields> ? BatchKind::kWrite
                                     : std::is_same_v<Fields, BatchGetFields> ? BatchKind::kGet
                                                                              : BatchKind::kSession;

  uint64_t EntryBytes() const {
    return request_.entries.capacity() * sizeof(*request_.entries.data());
  }

  grpc::ByteBuffer wire_;
  uint64_t entries_ = 0;
  GatheredBytes bytes_;
  Fields request_;
  grpc::ByteBuffer answer_;
};

}  // namespace lodgekv::server
