// A connection to one method of a gRPC server that takes as little of the processor as it can: it
// speaks HTTP/2 by libnghttp2 and looks into no answer. What a server costs can be told from what
// its client costs only beside such a client.
//
// A call that ends with a status other than OK, or with an answer that is too small to be right,
// fails the connection.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "bench/server_bench/loopback.h"

namespace lodgekv::server_bench {

class Http2Connection {
 public:
  Http2Connection() = default;
  ~Http2Connection();
  Http2Connection(const Http2Connection&) = delete;
  Http2Connection& operator=(const Http2Connection&) = delete;

  // method: "/lodgekv.v1.KvService/Get". A right answer has at least so many bytes of messages.
  // one_stream: calls are messages of one stream that stays open, answered in order by one each.
  absl::Status Open(const LocalAddress& address, std::string_view method, size_t least_answer_bytes,
                    bool one_stream);

  // Queues a call with this request; from_ns is returned with its answer.
  void Call(std::string message, uint64_t from_ns);
  // Sends what the server's windows allow of the queued calls.
  absl::Status Send();
  // Receives what is there, or waits for something; returns from_ns of the calls that it answers,
  // valid until the next call.
  absl::StatusOr<absl::Span<const uint64_t>> Receive();

  int fd() const { return fd_; }
  // Of answers, with gRPC's own before each message.
  uint64_t answer_bytes() const { return answer_bytes_; }

 private:
  struct Callbacks;
  struct Stream {
    std::string request;
    uint64_t from_ns = 0;
    size_t sent = 0;
    size_t answer_bytes = 0;
    // Of one that stays open: of the messages that are not answered, and the bytes of an answer.
    std::deque<uint64_t> awaited;
    std::string answer_header;
    size_t answer_rest = 0;
  };
  struct DeleteSession {
    void operator()(nghttp2_session* session) const { nghttp2_session_del(session); }
  };

  absl::Status StartSession();
  void StartStream(std::string request_bytes, uint64_t from_ns);
  // Of the stream that stays open.
  void AppendMessage(const std::string& message, uint64_t from_ns);
  void TakeAnswers(Stream& stream, std::string_view bytes);
  void End(const Stream& stream, uint32_t error);
  // The first failure is kept; Send and Receive return it.
  void Fail(const std::string& why);

  int fd_ = -1;
  std::string method_;
  size_t least_answer_bytes_ = 0;
  bool one_stream_ = false;
  int32_t stream_id_ = 0;     // of the one, once it is open
  Stream* stream_ = nullptr;  // likewise
  std::unique_ptr<nghttp2_session, DeleteSession> session_;
  absl::flat_hash_map<int32_t, std::unique_ptr<Stream>> streams_;  // not answered yet
  std::vector<uint64_t> answered_;                                 // what Receive returns
  uint64_t answer_bytes_ = 0;
  absl::Status status_;
  std::string out_;
  std::unique_ptr<uint8_t[]> in_;
};

}  // namespace lodgekv::server_bench
