// A connection to one method of a gRPC server that takes as little of the processor as it can: it
// speaks HTTP/2 by libnghttp2 and looks into no answer. What a server costs can be told from what
// its client costs only beside such a client.
//
// An answer without a message, which is how gRPC sends an error, fails the connection.
#pragma once

#include <netinet/in.h>
#include <nghttp2/nghttp2.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lodgekv::server_bench {

class Http2Connection {
 public:
  Http2Connection() = default;
  ~Http2Connection();
  Http2Connection(const Http2Connection&) = delete;
  Http2Connection& operator=(const Http2Connection&) = delete;

  // method: "/lodgekv.v1.KvService/Get"
  absl::Status Open(const sockaddr_in& address, std::string_view method);

  // Queues a call with this request.
  void Call(std::string message);
  // Sends what the server's windows allow of the queued calls.
  absl::Status Send();
  // Receives what is there, or waits for something; returns how many calls it answers.
  absl::StatusOr<size_t> Receive();

  int fd() const { return fd_; }

 private:
  struct Callbacks;
  struct Stream {
    std::string request;
    size_t sent = 0;
    bool has_message = false;  // its answer has begun
  };
  struct DeleteSession {
    void operator()(nghttp2_session* session) const { nghttp2_session_del(session); }
  };

  absl::Status StartSession();
  // The first failure is kept; Send and Receive return it.
  void Fail(const std::string& why);

  int fd_ = -1;
  std::string method_;
  std::unique_ptr<nghttp2_session, DeleteSession> session_;
  absl::flat_hash_map<int32_t, std::unique_ptr<Stream>> streams_;  // not answered yet
  size_t answers_ = 0;                                             // that Receive has not returned
  absl::Status status_;
  std::string out_;
  std::unique_ptr<uint8_t[]> in_;
};

}  // namespace lodgekv::server_bench
