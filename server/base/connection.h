// A client's connection and its peer, with the counts that limits are checked against.
//
// The front door adds a connection when it accepts it and removes it when its socket is closed; a
// call finds it by the name that gRPC gives the remote end. A peer is all connections from one
// address: one machine, or a proxy for many.
//
// INVARIANT  Counts of work in flight (operations, bytes) are decremented exactly once, by the code
//            that incremented them. All members may be used from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace lodgekv::server {

// Accepted and not yet answered. The bytes include answers until the client has read them.
struct InFlight {
  std::atomic<uint64_t> operations{0};
  std::atomic<uint64_t> bytes{0};
};

struct Peer {
  explicit Peer(std::string of_address) : address(std::move(of_address)) {}

  const std::string address;  // without a port: "ipv4:192.0.2.1", "unix:"
  std::atomic<uint64_t> connections{0};
  InFlight in_flight;
};

struct Connection {
  Connection(std::string of_name, std::shared_ptr<Peer> of_peer)
      : name(std::move(of_name)), peer(std::move(of_peer)) {
    peer->connections.fetch_add(1, std::memory_order_relaxed);
  }
  ~Connection() { peer->connections.fetch_sub(1, std::memory_order_relaxed); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const std::string name;  // as gRPC names it: "ipv4:192.0.2.1:4711"
  const std::shared_ptr<Peer> peer;
  InFlight in_flight;
  // Of messages of sessions that wait for their session's own work (admission.h).
  std::atomic<uint64_t> waiting_bytes{0};
  // Calls of the data port whose request has been received completely (of a session: its headers),
  // and the bytes of those requests and of the messages of sessions. Other bytes received on the
  // socket are headers or parts of unfinished requests.
  std::atomic<uint64_t> requests{0};
  std::atomic<uint64_t> request_bytes{0};
  // Sessions: begun, open, and their messages received completely.
  std::atomic<uint64_t> sessions{0};
  std::atomic<uint64_t> open_sessions{0};
  std::atomic<uint64_t> session_messages{0};
  // Bytes of requests that were refused because of their content: their size on the wire or in
  // memory, whichever is larger.
  std::atomic<uint64_t> invalid_bytes{0};
  // When the client last read an answer, or a page of one: milliseconds of the steady clock; 0:
  // never.
  std::atomic<int64_t> last_delivery_ms{0};
  // Calls refused because this connection or its peer had used up its share.
  std::atomic<uint64_t> refusals{0};
};

}  // namespace lodgekv::server
