#include "server/front_door/offenders.h"

#include <algorithm>

namespace lodgekv::server {
namespace {

DoorTime::duration TimeFor(uint64_t offences, const OffenceLimits& limits) {
  return static_cast<int64_t>(offences) * limits.forgiven_after;
}

}  // namespace

void Offenders::Note(const std::string& peer, const OffenceLimits& limits, DoorTime now) {
  if (limits.most == 0 || peer.empty()) return;
  if (!forgiven_at_.contains(peer)) MakeRoom(now);
  DoorTime& forgiven_at = forgiven_at_.try_emplace(peer, now).first->second;
  // Of many connections that are ended at once no more count than may be: who is barred waits for
  // one offence to be forgiven, however many there were.
  forgiven_at =
      std::min(std::max(forgiven_at, now) + TimeFor(1, limits), now + TimeFor(limits.most, limits));
}

std::optional<DoorTime> Offenders::BarredUntil(std::string_view peer, const OffenceLimits& limits,
                                               DoorTime now) const {
  if (limits.most == 0 || forgiven_at_.empty()) return std::nullopt;
  const auto found = forgiven_at_.find(absl::string_view(peer.data(), peer.size()));
  if (found == forgiven_at_.end()) return std::nullopt;
  const DoorTime until = found->second - TimeFor(limits.most - 1, limits);
  return until > now ? std::optional(until) : std::nullopt;
}

void Offenders::MakeRoom(DoorTime now) {
  if (forgiven_at_.size() < kMostPeers) return;
  absl::erase_if(forgiven_at_, [now](const auto& peer) { return peer.second <= now; });
  if (forgiven_at_.size() < kMostPeers) return;
  forgiven_at_.erase(std::min_element(
      forgiven_at_.begin(), forgiven_at_.end(),
      [](const auto& one, const auto& other) { return one.second < other.second; }));
}

}  // namespace lodgekv::server
