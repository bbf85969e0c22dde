// Limits how often each peer may do something, such as open a connection or have one closed for an
// offence: each has a bucket of `most` entries, which gets one entry back per `refill`.
//
// Only one time is kept for a peer: when its bucket will be full again.
//
// INVARIANT  A peer whose bucket is full is removed when space is needed. At most kMaxPeers are
//            kept; beyond that those whose buckets are full soonest are removed first.
// Thread safety: none; only the door's thread uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "server/front_door/connection_record.h"

namespace lodgekv::server {

// Read again at each use, so that a reload applies.
struct BucketLimits {
  uint64_t most = 0;  // 0: no limit
  DoorTime::duration refill{0};
};

class PeerBuckets {
 public:
  // About 100 bytes each.
  static constexpr size_t kMaxPeers = 4'096;

  // Peers are named by their network (peer_name.h); those without a name have no bucket. Takes an
  // entry, if there is one; from an empty bucket none, but the time until the next begins again.
  void Take(std::string_view peer, const BucketLimits& limits, DoorTime now);
  // When an entry will be available; nothing if there is one now.
  std::optional<DoorTime> EmptyUntil(std::string_view peer, const BucketLimits& limits,
                                     DoorTime now) const;

  size_t size() const { return full_at_.size(); }

 private:
  void MakeRoom(DoorTime now);

  absl::flat_hash_map<std::string, DoorTime> full_at_;
};

}  // namespace lodgekv::server
