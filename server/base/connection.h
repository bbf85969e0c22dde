// A client's connection, and the peer behind it, as the shares of the server's work are counted.
//
// The front door adds a connection when it accepts it and removes it when its socket is gone; a
// call finds it by the name that gRPC gives the other end. A peer is all connections from one
// address: a machine, or whatever speaks for many of them.
//
// INVARIANT  The counts of what is in hand (operations, bytes) are given back to the one by whoever
//            took them. All members are of any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace lodgekv::server {

// Accepted and not yet answered, answers included until the client has taken them.
struct InHand {
  std::atomic<uint64_t> operations{0};
  std::atomic<uint64_t> bytes{0};
};

struct Peer {
  explicit Peer(std::string of_address) : address(std::move(of_address)) {}

  const std::string address;  // without a port: "ipv4:192.0.2.1", "unix:"
  std::atomic<uint64_t> connections{0};
  InHand in_hand;
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
  InHand in_hand;
  // Calls of the data port whose request has come whole, and the bytes of those requests. What the
  // socket received beyond them is headers, or has not become a request yet.
  std::atomic<uint64_t> requests{0};
  std::atomic<uint64_t> request_bytes{0};
  // Of requests that were refused for what is in them: their bytes, or what was built of them,
  // where that is more.
  std::atomic<uint64_t> invalid_bytes{0};
  // When it last took an answer, or a page of one: milliseconds of the steady clock; 0: never.
  std::atomic<int64_t> taken_ms{0};
  // Calls refused because this connection or its peer held its share.
  std::atomic<uint64_t> refusals{0};
};

}  // namespace lodgekv::server
