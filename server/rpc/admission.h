// How much work the server has in hand: operations accepted and not yet answered, and the bytes of
// keys and values held for them, answers included until the client has taken them. It is counted
// for all, for each peer and for each connection, each with a limit of its own.
//
// A connection that holds little is let in though its peer or all others hold all there is: into a
// reserve of an eighth beyond the limits, so that nobody is shut out by what another does not take.
//
// INVARIANT  What was taken for a call stands in its Held, and is handed back from there, to the
//            operation and to the byte. A limit is passed only by a call that is all its
//            connection, peer or server holds: so no limit makes a call impossible for good.
// Thread safety: all calls at any time, but a Held is its call's alone.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string_view>

#include "server/base/connection.h"
#include "server/base/limits.h"

namespace lodgekv::server {

// The field of the configuration that kept a call out.
enum class AdmissionLimit : uint8_t { kOperations, kBytes, kPeer, kConnection };
inline constexpr size_t kAdmissionLimits = 4;
inline constexpr std::array<std::string_view, kAdmissionLimits> kAdmissionLimitNames{
    "max_inflight_operations", "max_inflight_size", "peer_share", "connection_share"};

class Admission {
 public:
  using Clock = std::chrono::steady_clock;

  // Of one call.
  struct Held {
    uint64_t operations = 0;
    uint64_t bytes = 0;
    // Those of them that were taken from the reserve.
    uint64_t reserve_operations = 0;
    uint64_t reserve_bytes = 0;
  };

  struct Verdict {
    bool admitted = true;
    // What stood in the way, and its value.
    AdmissionLimit limit = AdmissionLimit::kOperations;
    bool of_bytes = false;
    uint64_t value = 0;
  };

  // A connection that holds at most this may use the reserve, and its calls go before those of
  // others. Few enough that a thousand of them fit, enough for a client that waits for answers.
  static constexpr uint64_t kLittleOperations = 16;
  static constexpr uint64_t kLittleBytes = kMiB;

  explicit Admission(const Limits& limits) { SetLimits(limits); }

  // Takes both and adds them to `held`, or neither.
  Verdict Take(Connection& connection, uint64_t operations, uint64_t bytes, Held& held);

  // All of it.
  void Leave(Connection& connection, Held& held);
  // Hands back bytes down to so many.
  void KeepBytes(Connection& connection, Held& held, uint64_t bytes);

  uint64_t operations() const { return Sum(all_.operations, reserve_.operations); }
  uint64_t bytes() const { return Sum(all_.bytes, reserve_.bytes); }
  uint64_t reserve_operations() const { return Get(reserve_.operations); }
  uint64_t reserve_bytes() const { return Get(reserve_.bytes); }

  // The reserve was used, or all or a peer was full, within the last second.
  bool UnderPressure(Clock::time_point now) const;

  // What is admitted stays so, though it may then lie above the new limits.
  void SetLimits(const Limits& limits);

  uint64_t max_operations() const { return Get(max_.operations); }
  uint64_t max_bytes() const { return Get(max_.bytes); }

  static bool HoldsLittle(const Connection& connection) {
    return Get(connection.in_hand.operations) <= kLittleOperations;
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
  static Taken TakeFrom(InHand& in_hand, const Request& request, uint64_t max_operations,
                        uint64_t max_bytes);
  static void GiveTo(InHand& in_hand, uint64_t operations, uint64_t bytes);
  static bool IsLittle(const Connection& connection, const Request& request);

  Verdict TakeShared(Connection& connection, const Request& request);
  bool TakeReserve(const Request& request);
  static void AddReserve(Connection& connection, const Request& request, Held& held);
  Verdict Refuse(Taken taken, AdmissionLimit share, uint64_t percent) const;
  void NotePressure();

  InHand max_;
  std::atomic<uint64_t> connection_percent_{100};
  std::atomic<uint64_t> peer_percent_{100};
  InHand all_;                          // but the reserve
  InHand reserve_;                      // not in all_; in the counts of connection and peer
  std::atomic<Clock::rep> pressed_{0};  // when last, in the clock's own unit; 0: never
};

}  // namespace lodgekv::server
