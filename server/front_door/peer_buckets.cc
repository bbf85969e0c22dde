#include "server/front_door/peer_buckets.h"

#include <algorithm>

namespace lodgekv::server {
namespace {

DoorTime::duration TimeFor(uint64_t count, const BucketLimits& limits) {
  return static_cast<int64_t>(count) * limits.refill;
}

absl::string_view ForLookup(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

void PeerBuckets::Take(std::string_view peer, const BucketLimits& limits, DoorTime now) {
  if (limits.most == 0 || peer.empty()) return;
  if (!full_at_.contains(ForLookup(peer))) MakeRoom(now);
  DoorTime& full_at = full_at_.try_emplace(ForLookup(peer), now).first->second;
  // No more count at once than the bucket has: an empty bucket gets its next entry after one
  // refill, however many attempts there were.
  full_at =
      std::min(std::max(full_at, now) + TimeFor(1, limits), now + TimeFor(limits.most, limits));
}

std::optional<DoorTime> PeerBuckets::EmptyUntil(std::string_view peer, const BucketLimits& limits,
                                                DoorTime now) const {
  if (limits.most == 0 || full_at_.empty()) return std::nullopt;
  const auto found = full_at_.find(ForLookup(peer));
  if (found == full_at_.end()) return std::nullopt;
  const DoorTime until = found->second - TimeFor(limits.most - 1, limits);
  return until > now ? std::optional(until) : std::nullopt;
}

void PeerBuckets::MakeRoom(DoorTime now) {
  if (full_at_.size() < kMaxPeers) return;
  absl::erase_if(full_at_, [now](const auto& peer) { return peer.second <= now; });
  if (full_at_.size() < kMaxPeers) return;
  full_at_.erase(std::min_element(
      full_at_.begin(), full_at_.end(),
      [](const auto& one, const auto& other) { return one.second < other.second; }));
}

}  // namespace lodgekv::server
