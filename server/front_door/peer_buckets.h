// What each peer may do now and then, such as open a connection, or have one ended for cause: a
// bucket of `most` for each, of which one comes back in each `refill`, one after the other.
//
// Kept of a peer is one moment: when its bucket will be full again.
//
// INVARIANT  No peer is remembered once its bucket is full and room is wanted; never more than
//            kMostPeers are, of whom those go first whose bucket is full soonest.
// Thread safety: none; it belongs to the door's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "server/front_door/connection_record.h"

namespace lodgekv::server {

// Read anew at each use, so that a reload applies.
struct BucketLimits {
  uint64_t most = 0;  // 0: any number, at any time
  DoorTime::duration refill{0};
};

class PeerBuckets {
 public:
  // Some 100 bytes each.
  static constexpr size_t kMostPeers = 4'096;

  // Peers by the name of their network (peer_name.h); those without a name have no bucket.
  // Takes one, where there is one: of an empty bucket nothing, but the wait for the next begins
  // anew.
  void Take(std::string_view peer, const BucketLimits& limits, DoorTime now);
  // Nothing: there is one to take.
  std::optional<DoorTime> EmptyUntil(std::string_view peer, const BucketLimits& limits,
                                     DoorTime now) const;

  size_t size() const { return full_at_.size(); }

 private:
  void MakeRoom(DoorTime now);

  absl::flat_hash_map<std::string, DoorTime> full_at_;
};

}  // namespace lodgekv::server
