// A connection to one method of a gRPC server that takes as little of the processor as it can: it
// writes frames of HTTP/2 (RFC 9113) by hand and looks into no answer. What a server costs can be
// told from what its client costs only beside such a client.
//
// An answer without a message, which is how gRPC sends an error, fails the connection.
#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_set.h"
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

  // Queues a call with this request of at most 16,000 bytes.
  void Call(std::string message);
  // Sends the queued calls that the server's windows allow.
  absl::Status Send();
  // Receives what is there, or waits for something; returns how many calls it answers.
  absl::StatusOr<size_t> Receive();

  int fd() const { return fd_; }

 private:
  void BeginFrame(size_t bytes, uint8_t type, uint8_t flags, uint32_t stream);
  void AddNumber(uint32_t number);
  void AddHeaders(uint32_t stream);
  void AddCall(std::string_view message);
  absl::StatusOr<size_t> TakeFrames();
  absl::StatusOr<size_t> TakeFrame(uint8_t type, uint8_t flags, uint32_t stream,
                                   std::string_view content);
  void TakeData(uint32_t stream, size_t bytes);
  absl::StatusOr<size_t> TakeEnd(uint32_t stream);

  int fd_ = -1;
  std::string first_headers_;  // of the first call: they go into the server's table
  uint32_t next_stream_ = 1;
  int64_t window_ = 65'535;  // bytes of calls that the server takes now
  uint64_t received_ = 0;    // since the server was told that it may send more
  std::deque<std::string> waiting_;
  absl::flat_hash_set<uint32_t> with_message_;  // streams whose answer has begun
  std::string out_;
  std::string in_;
};

}  // namespace lodgekv::server_bench
