// The request and the answer of a call object, which serves one call after another.
//
// INVARIANT  Between LetGo and the next request they hold at most kKeptBytes beside what the class
//            states of itself, whatever was in them: a spare call must not pin what a client sent.
#pragma once

#include <google/protobuf/arena.h>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "lodgekv/v1/kv.pb.h"
#include "server/limits.h"

namespace lodgekv::server {

inline constexpr uint64_t kKeptBytes = 4 * kKiB;

// Fields that this version does not know mean nothing to it, but each takes 16 bytes and more for
// two of the message: they are dropped before the request waits for anything.
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

// What the strings of a message keep when it is cleared.
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

// Frees what a message keeps when that is much.
template <class Message>
void LetGoOf(Message& message) {
  if (KeptBy(message) > kKeptBytes) Message().Swap(&message);
}

// Of calls about one key: their few strings are used again, so that a small call allocates nothing.
template <class Request, class Response>
class KeptMessages {
 public:
  Request& request() { return request_; }
  const Request& request() const { return request_; }
  Response& response() { return response_; }

  void LetGo() {
    LetGoOf(request_);
    LetGoOf(response_);
  }
  uint64_t HeldBytes() const { return request_.SpaceUsedLong() + response_.SpaceUsedLong(); }

 private:
  Request request_;
  Response response_;
};

// Of batches: protobuf would keep each element that ever was, and to measure that takes as long as
// to let it go. All lies in an arena, of which the first block alone stays.
template <class Request, class Response>
class ArenaMessages {
 public:
  ArenaMessages() : arena_(Options()) { Make(); }
  ArenaMessages(const ArenaMessages&) = delete;
  ArenaMessages& operator=(const ArenaMessages&) = delete;

  Request& request() { return *request_; }
  const Request& request() const { return *request_; }
  Response& response() { return *response_; }

  void LetGo() {
    arena_.Reset();
    Make();
  }
  uint64_t HeldBytes() const {
    return arena_.SpaceAllocated() + request_->SpaceUsedLong() + response_->SpaceUsedLong();
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
  void Make() {
    request_ = google::protobuf::Arena::CreateMessage<Request>(&arena_);
    response_ = google::protobuf::Arena::CreateMessage<Response>(&arena_);
  }

  alignas(std::max_align_t) std::array<char, kKeptBytes> first_block_;
  google::protobuf::Arena arena_;
  Request* request_ = nullptr;
  Response* response_ = nullptr;
};

}  // namespace lodgekv::server
