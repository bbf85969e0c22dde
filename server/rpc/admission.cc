#include "server/rpc/admission.h"

#include <algorithm>

namespace lodgekv::server {
namespace {

constexpr auto kPressureLasts = std::chrono::seconds(1);
// The reserve is this part of each limit.
constexpr uint64_t kReservePart = 8;
constexpr uint64_t kWhole = 100;

// Not below one: a share of nothing would refuse all.
uint64_t PercentOf(uint64_t value, uint64_t percent) {
  return std::max<uint64_t>(1, value / kWhole * percent + value % kWhole * percent / kWhole);
}

}  // namespace

void Admission::SetLimits(const Limits& limits) {
  max_.operations.store(limits.max_inflight_operations, std::memory_order_relaxed);
  max_.bytes.store(limits.max_inflight_size, std::memory_order_relaxed);
  connection_percent_.store(limits.connection_share, std::memory_order_relaxed);
  peer_percent_.store(limits.peer_share, std::memory_order_relaxed);
}

void Admission::GiveTo(InHand& in_hand, uint64_t operations, uint64_t bytes) {
  if (operations != 0) in_hand.operations.fetch_sub(operations, std::memory_order_relaxed);
  if (bytes != 0) in_hand.bytes.fetch_sub(bytes, std::memory_order_relaxed);
}

// Adds first and looks then, so that two at a time do not both take the last.
Admission::Taken Admission::TakeFrom(InHand& in_hand, const Request& request,
                                     uint64_t max_operations, uint64_t max_bytes) {
  if (request.operations != 0) {
    const uint64_t before =
        in_hand.operations.fetch_add(request.operations, std::memory_order_relaxed);
    if (before > request.held.operations && before + request.operations > max_operations) {
      GiveTo(in_hand, request.operations, 0);
      return Taken::kTooManyOperations;
    }
  }
  const uint64_t before = in_hand.bytes.fetch_add(request.bytes, std::memory_order_relaxed);
  if (before > request.held.bytes && before + request.bytes > max_bytes) {
    GiveTo(in_hand, request.operations, request.bytes);
    return Taken::kTooManyBytes;
  }
  return Taken::kBoth;
}

// What is asked for has been added to the connection.
bool Admission::IsLittle(const Connection& connection, const Request& request) {
  const InHand& in_hand = connection.in_hand;
  return Get(in_hand.operations) <= kLittleOperations &&
         Get(in_hand.bytes) <= kLittleBytes + request.bytes;
}

Admission::Verdict Admission::Refuse(Taken taken, AdmissionLimit share, uint64_t percent) const {
  const bool of_bytes = taken == Taken::kTooManyBytes;
  const uint64_t whole = of_bytes ? max_bytes() : max_operations();
  if (percent != kWhole) return {false, share, of_bytes, PercentOf(whole, percent)};
  return {false, of_bytes ? AdmissionLimit::kBytes : AdmissionLimit::kOperations, of_bytes, whole};
}

// From the peer's share and from all.
Admission::Verdict Admission::TakeShared(Connection& connection, const Request& request) {
  const uint64_t percent = Get(peer_percent_);
  InHand& of_peer = connection.peer->in_hand;
  Taken taken = TakeFrom(of_peer, request, PercentOf(max_operations(), percent),
                         PercentOf(max_bytes(), percent));
  if (taken != Taken::kBoth) return Refuse(taken, AdmissionLimit::kPeer, percent);
  taken = TakeFrom(all_, request, max_operations(), max_bytes());
  if (taken == Taken::kBoth) return {};
  GiveTo(of_peer, request.operations, request.bytes);
  return Refuse(taken, AdmissionLimit::kOperations, kWhole);
}

bool Admission::TakeReserve(const Request& request) {
  const Held nothing;
  const Request strict{request.operations, request.bytes, nothing};
  const uint64_t max_operations = this->max_operations() / kReservePart;
  const uint64_t max_bytes = this->max_bytes() / kReservePart;
  return request.operations <= max_operations && request.bytes <= max_bytes &&
         TakeFrom(reserve_, strict, max_operations, max_bytes) == Taken::kBoth;
}

Admission::Verdict Admission::Take(Connection& connection, uint64_t operations, uint64_t bytes,
                                   Held& held) {
  const Request request{operations, bytes, held};
  const uint64_t percent = Get(connection_percent_);
  const Taken taken = TakeFrom(connection.in_hand, request, PercentOf(max_operations(), percent),
                               PercentOf(max_bytes(), percent));
  if (taken != Taken::kBoth) {
    connection.refusals.fetch_add(1, std::memory_order_relaxed);
    return Refuse(taken, AdmissionLimit::kConnection, percent);
  }
  const Verdict verdict = TakeShared(connection, request);
  if (!verdict.admitted) {
    NotePressure();
    if (!IsLittle(connection, request) || !TakeReserve(request)) {
      GiveTo(connection.in_hand, operations, bytes);
      const bool of_peer = verdict.limit == AdmissionLimit::kPeer;
      if (of_peer) connection.refusals.fetch_add(1, std::memory_order_relaxed);
      return verdict;
    }
    AddReserve(connection, request, held);
  }
  held.operations += operations;
  held.bytes += bytes;
  return {};
}

// TakeReserve has taken it.
void Admission::AddReserve(Connection& connection, const Request& request, Held& held) {
  InHand& of_peer = connection.peer->in_hand;
  of_peer.operations.fetch_add(request.operations, std::memory_order_relaxed);
  of_peer.bytes.fetch_add(request.bytes, std::memory_order_relaxed);
  held.reserve_operations += request.operations;
  held.reserve_bytes += request.bytes;
}

void Admission::Leave(Connection& connection, Held& held) {
  GiveTo(connection.in_hand, held.operations, held.bytes);
  GiveTo(connection.peer->in_hand, held.operations, held.bytes);
  GiveTo(all_, held.operations - held.reserve_operations, held.bytes - held.reserve_bytes);
  GiveTo(reserve_, held.reserve_operations, held.reserve_bytes);
  held = {};
}

void Admission::KeepBytes(Connection& connection, Held& held, uint64_t bytes) {
  if (held.bytes <= bytes) return;
  Held rest;
  rest.bytes = held.bytes - bytes;
  rest.reserve_bytes = std::min(rest.bytes, held.reserve_bytes);
  held.bytes = bytes;
  held.reserve_bytes -= rest.reserve_bytes;
  Leave(connection, rest);
}

void Admission::NotePressure() {
  pressed_.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
}

bool Admission::UnderPressure(Clock::time_point now) const {
  const Clock::rep pressed = pressed_.load(std::memory_order_relaxed);
  return pressed != 0 && now - Clock::time_point(Clock::duration(pressed)) < kPressureLasts;
}

}  // namespace lodgekv::server
