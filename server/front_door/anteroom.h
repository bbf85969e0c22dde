// Connections that are accepted and not yet let in, since their peer opens them faster than it may.
// Each peer that has a bucket's worth of entries left comes in at once; else its connections wait
// here, in the order of their coming, and come in as its bucket fills. One that waits costs a
// descriptor, and no word is exchanged with it.
//
// INVARIANT  None passes another of the same peer. None waits longer than `longest_wait`, but for a
//            reload. One that has left again takes nothing from its peer's bucket.
// Thread safety: none; it belongs to the door's thread.
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

struct Newcomer {
  UniqueFd fd;
  std::string name;     // as gRPC names it
  std::string network;  // empty: of a Unix socket
};

// Read anew at each use, so that a reload applies.
struct EntryLimits {
  BucketLimits bucket;
  DoorTime::duration longest_wait{0};
};

class Anteroom {
 public:
  // Nothing: its peer has too many there already.
  enum class Place { kInside, kHere, kNone };
  // Where a newcomer of that network belongs.
  Place PlaceFor(const std::string& network, const EntryLimits& limits, DoorTime now);

  // Of one that comes in at once.
  void NoteEntry(const std::string& network, const EntryLimits& limits, DoorTime now);
  void Add(Newcomer newcomer);

  // Those who may come in now, `most` of them at most. Drops those it finds to have left.
  std::vector<Newcomer> TakeDue(const EntryLimits& limits, DoorTime now, size_t most);
  // When the next may come in; nothing: nobody waits.
  std::optional<DoorTime> NextDue(const EntryLimits& limits, DoorTime now) const;

  // The newest of the peer that has most, to make room for a newcomer of that network; nothing
  // where no other has more.
  std::optional<Newcomer> TakeOneTooMany(const std::string& network);

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  void Clear();

 private:
  using Queue = std::deque<Newcomer>;

  void DropGone(Queue& queue);
  size_t Waiting(const std::string& network) const;

  PeerBuckets entries_;
  // One that is found empty goes with the next TakeDue.
  absl::flat_hash_map<std::string, Queue> queues_;
  size_t size_ = 0;  // of all together
};

}  // namespace lodgekv::server
