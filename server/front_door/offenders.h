// The peers whose connections a port ended for cause, and who of them is not let in for now.
//
// A peer may offend `most` times at once; its offences are forgiven one after the other, each in
// `forgiven_after`. Whoever has no offence left to make is barred until one is forgiven. Kept of a
// peer is one moment: when all of its offences will be forgiven.
//
// INVARIANT  No peer is remembered once all is forgiven and room is wanted; never more than
//            kMostPeers are, of whom those go first that are forgiven soonest.
// Thread safety: none; it belongs to the door's thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "server/front_door/connection_record.h"

namespace lodgekv::server {

// Read anew at each use, so that a reload applies.
struct OffenceLimits {
  uint64_t most = 0;  // 0: nobody is barred
  std::chrono::milliseconds forgiven_after{0};
};

class Offenders {
 public:
  // Some 100 bytes each.
  static constexpr size_t kMostPeers = 4'096;

  // Peers by the name of their network (peer_name.h).
  void Note(const std::string& peer, const OffenceLimits& limits, DoorTime now);
  // Nothing: it may come in.
  std::optional<DoorTime> BarredUntil(std::string_view peer, const OffenceLimits& limits,
                                      DoorTime now) const;

  size_t size() const { return forgiven_at_.size(); }

 private:
  void MakeRoom(DoorTime now);

  absl::flat_hash_map<std::string, DoorTime> forgiven_at_;
};

}  // namespace lodgekv::server
