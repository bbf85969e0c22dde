#include "server/rpc/admission.h"

#include <algorithm>
#include <utility>

namespace lodgekv::server {
namespace {

constexpr auto kPressureDuration = std::chrono::seconds(1);
// The reserve, as a part of each limit; and what may wait, of that of bytes.
constexpr uint64_t kReservePart = 8;
constexpr uint64_t kWaitingPart = 8;
constexpr uint64_t kWhole = 100;

// At least one: a share of 0 would refuse everything.
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

void Admission::Subtract(InFlight& in_flight, uint64_t operations, uint64_t bytes) {
  if (operations != 0) in_flight.operations.fetch_sub(operations, std::memory_order_relaxed);
  if (bytes != 0) in_flight.bytes.fetch_sub(bytes, std::memory_order_relaxed);
}

// Adds before it checks, so that two threads cannot both take the last of it.
Admission::Taken Admission::TakeFrom(InFlight& in_flight, const Request& request,
                                     uint64_t max_operations, uint64_t max_bytes) {
  if (request.operations != 0) {
    const uint64_t before =
        in_flight.operations.fetch_add(request.operations, std::memory_order_relaxed);
    if (before > request.held.operations && before + request.operations > max_operations) {
      Subtract(in_flight, request.operations, 0);
      return Taken::kTooManyOperations;
    }
  }
  const uint64_t before = in_flight.bytes.fetch_add(request.bytes, std::memory_order_relaxed);
  if (before > request.held.bytes && before + request.bytes > max_bytes) {
    Subtract(in_flight, request.operations, request.bytes);
    return Taken::kTooManyBytes;
  }
  return Taken::kBoth;
}

// The request has been added to the connection's counts already.
bool Admission::IsLightBesides(const Connection& connection, const Request& request) {
  const InFlight& in_flight = connection.in_flight;
  return Get(in_flight.operations) <= kLightOperations &&
         Get(in_flight.bytes) <= kLightBytes + request.bytes;
}

Admission::Verdict Admission::Refuse(Taken taken, AdmissionLimit share, uint64_t percent) const {
  const bool of_bytes = taken == Taken::kTooManyBytes;
  const uint64_t whole = of_bytes ? max_bytes() : max_operations();
  if (percent != kWhole) return {false, share, of_bytes, PercentOf(whole, percent)};
  return {false, of_bytes ? AdmissionLimit::kBytes : AdmissionLimit::kOperations, of_bytes, whole};
}

// Takes from the peer's share and from the server's limits.
Admission::Verdict Admission::TakeShared(Connection& connection, const Request& request) {
  const uint64_t percent = Get(peer_percent_);
  InFlight& of_peer = connection.peer->in_flight;
  Taken taken = TakeFrom(of_peer, request, PercentOf(max_operations(), percent),
                         PercentOf(max_bytes(), percent));
  if (taken != Taken::kBoth) return Refuse(taken, AdmissionLimit::kPeer, percent);
  taken = TakeFrom(all_, request, max_operations(), max_bytes());
  if (taken == Taken::kBoth) return {};
  Subtract(of_peer, request.operations, request.bytes);
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
  const Taken taken = TakeFrom(connection.in_flight, request, PercentOf(max_operations(), percent),
                               PercentOf(max_bytes(), percent));
  if (taken != Taken::kBoth) {
    connection.refusals.fetch_add(1, std::memory_order_relaxed);
    return Refuse(taken, AdmissionLimit::kConnection, percent);
  }
  const Verdict verdict = TakeShared(connection, request);
  if (!verdict.admitted) {
    NotePressure();
    if (!IsLightBesides(connection, request) || !TakeReserve(request)) {
      Subtract(connection.in_flight, operations, bytes);
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

// Called when TakeReserve has taken it.
void Admission::AddReserve(Connection& connection, const Request& request, Held& held) {
  InFlight& of_peer = connection.peer->in_flight;
  of_peer.operations.fetch_add(request.operations, std::memory_order_relaxed);
  of_peer.bytes.fetch_add(request.bytes, std::memory_order_relaxed);
  held.reserve_operations += request.operations;
  held.reserve_bytes += request.bytes;
}

// A message that is alone may wait whatever its size, as a call that is alone is admitted.
bool Admission::Wait(Connection& connection, uint64_t bytes, Held& held) {
  const uint64_t most = max_bytes() / kWaitingPart;
  const auto take = [bytes](std::atomic<uint64_t>& waiting, uint64_t limit) {
    const uint64_t before = waiting.fetch_add(bytes, std::memory_order_relaxed);
    if (before == 0 || before + bytes <= limit) return true;
    waiting.fetch_sub(bytes, std::memory_order_relaxed);
    return false;
  };
  if (!take(connection.waiting_bytes, PercentOf(most, Get(connection_percent_)))) return false;
  if (!take(waiting_bytes_, most)) {
    connection.waiting_bytes.fetch_sub(bytes, std::memory_order_relaxed);
    return false;
  }
  held.waiting_bytes = bytes;
  return true;
}

void Admission::EndWait(Connection& connection, Held& held) {
  if (held.waiting_bytes == 0) return;
  const uint64_t bytes = std::exchange(held.waiting_bytes, 0);
  connection.waiting_bytes.fetch_sub(bytes, std::memory_order_relaxed);
  waiting_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
}

void Admission::Release(Connection& connection, Held& held) {
  EndWait(connection, held);
  Subtract(connection.in_flight, held.operations, held.bytes);
  Subtract(connection.peer->in_flight, held.operations, held.bytes);
  Subtract(all_, held.operations - held.reserve_operations, held.bytes - held.reserve_bytes);
  Subtract(reserve_, held.reserve_operations, held.reserve_bytes);
  held = {};
}

void Admission::ReleaseAbove(Connection& connection, Held& held, uint64_t bytes) {
  if (held.bytes <= bytes) return;
  Held rest;
  rest.bytes = held.bytes - bytes;
  rest.reserve_bytes = std::min(rest.bytes, held.reserve_bytes);
  held.bytes = bytes;
  held.reserve_bytes -= rest.reserve_bytes;
  Release(connection, rest);
}

void Admission::NotePressure() {
  last_pressure_.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
}

bool Admission::UnderPressure(Clock::time_point now) const {
  const Clock::rep pressed = last_pressure_.load(std::memory_order_relaxed);
  return pressed != 0 && now - Clock::time_point(Clock::duration(pressed)) < kPressureDuration;
}

}  // namespace lodgekv::server
