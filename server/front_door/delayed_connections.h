// Accepted connections that are delayed, since their peer opens them faster than its rate allows. A
// connection is admitted at once while its peer's bucket has an entry left; others wait here in the
// order of their arrival, and are admitted as the bucket refills. A delayed connection costs a
// descriptor; nothing is read from it or written to it.
//
// INVARIANT  Connections of a peer are admitted in the order of their arrival. None waits longer
//            than `longest_wait`, except after a reload. A connection that its client has closed
//            takes nothing from its peer's bucket.
// Thread safety: none; only the door's thread uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "server/front_door/connection_record.h"
#include "server/front_door/peer_buckets.h"
#include "server/front_door/unique_fd.h"

namespace lodgekv::server {

struct AcceptedConnection {
  UniqueFd fd;
  std::string name;     // as gRPC names it
  std::string network;  // empty for a Unix socket
};

// Read again at each use, so that a reload applies.
struct ConnectionRateLimits {
  BucketLimits bucket;
  DoorTime::duration longest_wait{0};
};

class DelayedConnections {
 public:
  // kRefuse: too many connections of the peer are delayed already.
  enum class Decision { kAdmit, kDelay, kRefuse };
  // What to do with a new connection from that network.
  Decision DecisionFor(const std::string& network, const ConnectionRateLimits& limits,
                       DoorTime now);

  // Counts a connection that was admitted at once.
  void NoteAdmitted(const std::string& network, const ConnectionRateLimits& limits, DoorTime now);
  void Add(AcceptedConnection accepted);

  // Removes and returns the connections that are now due, at most `most`. Drops closed ones that it
  // finds on the way.
  std::vector<AcceptedConnection> TakeDue(const ConnectionRateLimits& limits, DoorTime now,
                                          size_t most);
  // When the next connection is due; nothing if none is delayed.
  std::optional<DoorTime> NextDue(const ConnectionRateLimits& limits, DoorTime now) const;

  // Removes and returns the newest connection of the peer with most, to free a place for one of
  // that network; nothing if no other peer has more.
  std::optional<AcceptedConnection> TakeFromLongest(const std::string& network);

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  void Clear();

 private:
  using Queue = std::deque<AcceptedConnection>;

  void DropClosed(Queue& queue);
  size_t Waiting(const std::string& network) const;

  PeerBuckets buckets_;
  // An empty queue is removed by the next TakeDue.
  absl::flat_hash_map<std::string, Queue> queues_;
  size_t size_ = 0;  // of all queues
};

}  // namespace lodgekv::server
