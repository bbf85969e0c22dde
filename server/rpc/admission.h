// Limits the work in flight: the operations accepted and not yet answered, and the bytes of keys
// and values held for them, which include answers until the client has read them. Both are counted
// for the server, for each peer and for each connection, each with limits of its own.
//
// A light connection, one with little in flight, is admitted even if its peer or all others have
// used up the limits: there is a reserve of an eighth beyond them, so that clients that do not read
// their answers keep nobody else out.
//
// A message of a session that finds no room may wait for what its session has in flight instead of
// being refused. What waits is in memory all the same, and no part of the counts above: it has a
// limit of its own, an eighth of max_inflight_size, of which one connection has its share.
//
// INVARIANT  What a call has taken is in its Held, and is released from there exactly. A limit is
//            exceeded only by a call that is alone on its connection, peer or server: so no limit
//            makes a call impossible for ever.
// Thread safety: all methods at any time, but a Held is used only by its call.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string_view>

#include "server/base/connection.h"
#include "server/base/limits.h"

namespace lodgekv::server {

// The configuration field that caused a refusal.
enum class AdmissionLimit : uint8_t { kOperations, kBytes, kPeer, kConnection };
inline constexpr size_t kAdmissionLimits = 4;
inline constexpr std::array<std::string_view, kAdmissionLimits> kAdmissionLimitNames{
    "max_inflight_operations", "max_inflight_size", "peer_share", "connection_share"};

class Admission {
 public:
  using Clock = std::chrono::steady_clock;

  // What one call has taken.
  struct Held {
    uint64_t operations = 0;
    uint64_t bytes = 0;
    // The part of it that came from the reserve.
    uint64_t reserve_operations = 0;
    uint64_t reserve_bytes = 0;
    // Of memory, while it waits.
    uint64_t waiting_bytes = 0;
  };

  struct Verdict {
    bool admitted = true;
    // The limit that was reached, and its value.
    AdmissionLimit limit = AdmissionLimit::kOperations;
    bool of_bytes = false;
    uint64_t value = 0;
  };

  // A connection with at most so much in flight is light: it may use the reserve, and its calls are
  // queued apart from those of others. So few that a thousand such connections fit; enough for a
  // client that waits for its answers.
  static constexpr uint64_t kLightOperations = 16;
  static constexpr uint64_t kLightBytes = kMiB;

  explicit Admission(const Limits& limits) { SetLimits(limits); }

  // Takes both and adds them to `held`, or takes nothing.
  Verdict Take(Connection& connection, uint64_t operations, uint64_t bytes, Held& held);

  // Notes that a message waits that takes so many bytes of memory. False: too much waits already.
  bool Wait(Connection& connection, uint64_t bytes, Held& held);
  // It waits no more.
  void EndWait(Connection& connection, Held& held);

  // Releases all of it.
  void Release(Connection& connection, Held& held);
  // Releases the bytes above `bytes`.
  void ReleaseAbove(Connection& connection, Held& held, uint64_t bytes);

  uint64_t operations() const { return Sum(all_.operations, reserve_.operations); }
  uint64_t bytes() const { return Sum(all_.bytes, reserve_.bytes); }
  uint64_t reserve_operations() const { return Get(reserve_.operations); }
  uint64_t reserve_bytes() const { return Get(reserve_.bytes); }
  uint64_t waiting_bytes() const { return Get(waiting_bytes_); }

  // Whether within the last second the reserve was used, or the server or a peer was at its limit.
  bool UnderPressure(Clock::time_point now) const;

  // Work that is already admitted stays so, even above the new limits.
  void SetLimits(const Limits& limits);

  uint64_t max_operations() const { return Get(max_.operations); }
  uint64_t max_bytes() const { return Get(max_.bytes); }

  static bool IsLight(const Connection& connection) {
    return Get(connection.in_flight.operations) <= kLightOperations;
  }

 private:
  struct Request {
    uint64_t operations;
    uint64_t bytes;
    const Held& held;
  };
  enum class Taken { kBoth, kTooManyOperations, kTooManyBytes };

  static uint64_t Get(const std::atomic<uint64_t>& value) {
    return value.load(std::memory_order_relaxed);
  }
  static uint64_t Sum(const std::atomic<uint64_t>& a, const std::atomic<uint64_t>& b) {
    return Get(a) + Get(b);
  }
  static Taken TakeFrom(InFlight& in_flight, const Request& request, uint64_t max_operations,
                        uint64_t max_bytes);
  static void Subtract(InFlight& in_flight, uint64_t operations, uint64_t bytes);
  static bool IsLightBesides(const Connection& connection, const Request& request);

  Verdict TakeShared(Connection& connection, const Request& request);
  bool TakeReserve(const Request& request);
  static void AddReserve(Connection& connection, const Request& request, Held& held);
  Verdict Refuse(Taken taken, AdmissionLimit share, uint64_t percent) const;
  void NotePressure();

  InFlight max_;
  std::atomic<uint64_t> connection_percent_{100};
  std::atomic<uint64_t> peer_percent_{100};
  InFlight all_;      // without the reserve
  InFlight reserve_;  // not part of all_; part of the counts of connection and peer
  std::atomic<uint64_t> waiting_bytes_{0};
  std::atomic<Clock::rep> last_pressure_{0};  // last time, in the clock's unit; 0: never
};

}  // namespace lodgekv::server
