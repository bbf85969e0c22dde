// The counters of a port of the front door, for metrics. Written by the door's thread only.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "server/front_door/connection_record.h"

namespace lodgekv::server {

// kAll: max_connections; kPeer: that of one peer; kDescriptors: the process has no more of them;
// kOffences: too many connections of the peer were closed for offences; kRate: it opens them too
// fast.
enum class RefuseReason { kAll, kPeer, kDescriptors, kOffences, kRate };
inline constexpr std::array<std::string_view, 5> kRefuseReasonNames{"all", "peer", "descriptors",
                                                                    "offences", "rate"};

// In the order of EndReason.
inline constexpr std::array<std::string_view, 7> kEndReasonNames{
    "made_room", "unfinished", "largest", "resets", "frames", "invalid", "stalled"};

struct DoorCounters {
  std::atomic<uint64_t> open{0};
  std::atomic<uint64_t> waiting{0};  // accepted and delayed
  std::atomic<uint64_t> limit{0};
  std::atomic<uint64_t> unfinished_bytes{0};
  std::atomic<uint64_t> accepted{0};
  std::array<std::atomic<uint64_t>, kRefuseReasonNames.size()> refused{};
  std::array<std::atomic<uint64_t>, kEndReasonNames.size()> ended{};

  void Refused(RefuseReason reason) { ++refused[static_cast<size_t>(reason)]; }
  void Ended(EndReason reason) { ++ended[static_cast<size_t>(reason)]; }
};

}  // namespace lodgekv::server
