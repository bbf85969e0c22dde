// What the front door does with the connections that it let in: looks at them, ends them, forgets
// them.

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_join.h"
#include "server/base/log.h"
#include "server/front_door/door_port.h"
#include "server/front_door/front_door.h"
#include "server/front_door/stream_counts.h"

namespace lodgekv::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using SteadyClock = std::chrono::steady_clock;

// Who may go when another comes. The client speaks first in TLS and in HTTP/2, and at once, so that
// one who has not said a word hardly means to: long enough for a look at what it may have said. The
// second is a few turns over the longest way.
constexpr milliseconds kSilentGrace{30};
constexpr milliseconds kNoRequestGrace{2'000};
constexpr seconds kIdleGrace{60};

// How long nobody may be let in before health says so.
constexpr seconds kShutGrace{2};
constexpr milliseconds kBetweenReaps{2};
// Ended, and their descriptors not yet closed: gRPC is behind.
constexpr uint64_t kMostLeaving = FrontDoor::kSpareDescriptors / 2;
constexpr seconds kBetweenMarks{10};
// What moves so much between two looks is looked at more often.
constexpr uint64_t kMuch = uint64_t{256} << 10;
// Bytes of a connection whose transport is looked for between two looks at all.
constexpr uint64_t kWorthFinding = uint64_t{16} << 10;
// gRPC says what failed before it closes the socket, and closes it soon.
constexpr milliseconds kUntilClosed{100};
constexpr size_t kMostGoneEarly = 64;
constexpr size_t kMostNamed = 4;
// Below it no connection is ended for what all take together.
constexpr uint64_t kSmallUnfinished = uint64_t{1} << 20;

// What only somebody does who means to, or whose client is broken. Not so who holds most where all
// hold too much, nor whose request stands still: a network may have failed in its midst, and at one
// a message_timeout little is won by it.
bool IsOffence(EndReason reason) {
  return reason == EndReason::kUnfinished || reason == EndReason::kResets ||
         reason == EndReason::kInvalid;
}

std::string PeersInWords(std::vector<std::string> peers) {
  if (peers.empty()) return "unknown";
  if (peers.size() == 1) return peers.front();
  const size_t more = peers.size() - std::min(peers.size(), kMostNamed);
  peers.resize(peers.size() - more);
  std::string words = "one of " + absl::StrJoin(peers, ", ");
  if (more != 0) words += " and " + std::to_string(more) + " more";
  return words;
}

}  // namespace

FrontDoor::Room FrontDoor::MakeRoom(DoorPort& port, const Newcomer& newcomer,
                                    const PortLimits& limits) {
  const std::string address(AddressOf(newcomer.name));
  const auto full = [&] { return port.counted() >= MaxConnections(port, limits); };
  const auto peer_full = [&] {
    const auto found = port.of_peer.find(address);
    return found != port.of_peer.end() && found->second >= limits.max_connections_per_peer;
  };
  const auto crowded = [&] { return port.leaving >= kMostLeaving; };
  if ((full() || peer_full() || crowded()) && now_ - port.reaped >= kBetweenReaps) Reap(port);
  if (peer_full()) {
    Guest* const victim = ChooseVictim(port, address);
    if (victim == nullptr) return Room::kPeer;
    End(port, *victim, EndReason::kMadeRoom);
  }
  if (full()) {
    const std::optional<Newcomer> waiting = port.anteroom.TakeOneTooMany(newcomer.network);
    if (waiting) RefuseForRate(port, *waiting);
  }
  if (full()) {
    Guest* const victim = ChooseVictim(port, {});
    if (victim == nullptr) return Room::kPort;
    End(port, *victim, EndReason::kMadeRoom);
  }
  return crowded() ? Room::kPort : Room::kYes;
}

// The oldest of those that are missed least; of one peer, where an address is given. Null: none.
Guest* FrontDoor::ChooseVictim(DoorPort& port, std::string_view address) {
  Guest* best = nullptr;
  int best_rank = 3;
  for (const auto& guest : port.guests) {
    if (guest->ended || guest->connection == nullptr) continue;
    if (!address.empty() && AddressOf(guest->name) != address) continue;
    const ConnectionRecord& record = guest->record;
    const auto age = now_ - record.accepted();
    int rank = 3;
    if (record.silent() && age >= kSilentGrace) {
      rank = 0;
    } else if (!record.has_asked() && age >= kNoRequestGrace) {
      rank = 1;
    } else if (record.idle_since() && now_ - *record.idle_since() >= kIdleGrace) {
      rank = 2;
    }
    // Guests stand in the order of their coming.
    if (rank >= best_rank) continue;
    best = guest.get();
    best_rank = rank;
  }
  return best;
}

uint64_t FrontDoor::MaxConnections(const DoorPort& port, const PortLimits& limits) const {
  return std::min(limits.max_connections, &port == &ports_.front() ? descriptor_room_ : UINT64_MAX);
}

// The first port is the one for many clients; what the others may have is set aside.
void FrontDoor::FitToDescriptors() {
  if (ports_.empty()) return;
  uint64_t aside = kSpareDescriptors;
  for (auto port = std::next(ports_.begin()); port != ports_.end(); ++port) {
    aside += port->options.limits().max_connections;
  }
  const uint64_t free = FreeDescriptors();
  descriptor_room_ = std::max<uint64_t>(1, free > aside ? free - aside : free / 2);
  const uint64_t wanted = ports_.front().options.limits().max_connections;
  if (wanted <= descriptor_room_) return;
  Log(LogLevel::kWarning,
      "the process may have too few file descriptors for max_connections; raise its limit",
      {{"max_connections", wanted}, {"in_effect", descriptor_room_}});
}

bool FrontDoor::IsHot(const DoorPort& port, const Guest& guest) const {
  return port.options.small || now_ < guest.hot_until;
}

bool FrontDoor::AnyHot() const {
  return std::any_of(ports_.begin(), ports_.end(), [this](const DoorPort& port) {
    return std::any_of(port.guests.begin(), port.guests.end(),
                       [&](const auto& guest) { return IsHot(port, *guest); });
  });
}

// Looks at the sockets, and forgets those that are closed.
void FrontDoor::Reap(DoorPort& port, bool whole) {
  if (whole) port.reaped = now_;
  std::erase_if(port.guests, [&](const std::unique_ptr<Guest>& guest) {
    if (!whole && !IsHot(port, *guest)) return false;
    const std::optional<SocketUse> use = guest->socket.Look();
    if (use) guest->use = *use;
    if (use) return false;
    Forget(port, *guest);
    return true;
  });
  port.counters.open = port.guests.size();
}

void FrontDoor::Forget(DoorPort& port, Guest& guest) {
  if (guest.ended) {
    --port.leaving;
  } else {
    LeavePeer(port, guest);
  }
  if (guest.connection == nullptr) return;
  if (port.options.tls && !guest.record.has_transport()) {
    gone_early_.emplace_back(SteadyClock::now(), guest.name);
    if (gone_early_.size() > kMostGoneEarly) gone_early_.pop_front();
  }
  connections_.Remove(*guest.connection);
  const auto named = port.by_name.find(guest.name);
  if (named != port.by_name.end() && named->second == &guest) port.by_name.erase(named);
}

void FrontDoor::LeavePeer(DoorPort& port, const Guest& guest) {
  const std::string_view address = AddressOf(guest.name);
  const auto peer = port.of_peer.find(absl::string_view(address.data(), address.size()));
  if (--peer->second == 0) port.of_peer.erase(peer);
}

void FrontDoor::Look(bool whole) {
  uint64_t total = 0;
  for (DoorPort& port : ports_) {
    const PortLimits limits = port.options.limits();
    Reap(port, whole);
    FindTransports(port, whole);
    uint64_t unfinished = 0;
    for (const auto& guest : port.guests) {
      if (guest->ended) continue;
      if (whole || IsHot(port, *guest)) LookAt(port, *guest, limits);
      if (whole) NoteHeat(*guest);
      if (!guest->ended) unfinished += guest->record.unfinished();
    }
    port.counters.unfinished_bytes = unfinished;
    port.counters.limit = MaxConnections(port, limits);
    total += unfinished;
  }
  EndLargest(total);
  TellHandshakes();
  if (!whole) return;
  JudgeReachability();
}

void FrontDoor::NoteHeat(Guest& guest) {
  const uint64_t moved = guest.use.bytes_read - guest.read_at_whole_look;
  guest.read_at_whole_look = guest.use.bytes_read;
  if (moved >= kMuch) guest.hot_until = now_ + Guest::kHotFor;
}

// Matches the connections that have begun to speak with the transports that gRPC made of them.
void FrontDoor::FindTransports(DoorPort& port, bool whole) {
  if (port.channelz_server == 0) return;
  const uint64_t least = whole ? 0 : kWorthFinding;
  const bool wanted = std::any_of(port.guests.begin(), port.guests.end(), [&](const auto& guest) {
    return guest->transport == 0 && guest->connection != nullptr && !guest->ended &&
           guest->use.bytes_read > least;
  });
  if (!wanted) return;
  if (now_ - port.marked >= kBetweenMarks) {
    port.look_from = port.newer;
    port.marked = now_;
  }
  VisitServerSockets(
      port.channelz_server, port.look_from, [&](intptr_t socket, std::string_view peer) {
        port.newer = std::max(port.newer, socket);
        const auto named = port.by_name.find(absl::string_view(peer.data(), peer.size()));
        if (named != port.by_name.end()) named->second->transport = socket;
      });
}

void FrontDoor::LookAt(DoorPort& port, Guest& guest, const PortLimits& limits) {
  std::optional<StreamCounts> streams;
  if (guest.transport != 0 && guest.record.WantsStreams(guest.use, now_)) {
    streams = ReadStreamCounts(guest.transport);
    if (!streams) guest.transport = 0;
  }
  RequestBytes requests;
  if (guest.connection != nullptr) {
    requests = {.all = guest.connection->request_bytes.load(std::memory_order_relaxed),
                .invalid = guest.connection->invalid_bytes.load(std::memory_order_relaxed)};
  }
  guest.record.Note(guest.use, streams, requests, limits.connection, now_);
  const std::optional<EndReason> offence = guest.record.Offence(limits.connection, now_);
  if (offence) End(port, guest, *offence);
}

// All together hold too much: the one that holds most goes.
void FrontDoor::EndLargest(uint64_t total) {
  if (total <= hooks_.max_unfinished_total()) return;
  DoorPort* of_largest = nullptr;
  Guest* largest = nullptr;
  for (DoorPort& port : ports_) {
    for (const auto& guest : port.guests) {
      if (guest->ended || guest->record.unfinished() <= kSmallUnfinished) continue;
      if (largest != nullptr && guest->record.unfinished() <= largest->record.unfinished())
        continue;
      largest = guest.get();
      of_largest = &port;
    }
  }
  if (largest != nullptr) End(*of_largest, *largest, EndReason::kLargest);
}

void FrontDoor::End(DoorPort& port, Guest& guest, EndReason reason) {
  guest.ended = true;
  ++port.leaving;
  LeavePeer(port, guest);
  port.counters.Ended(reason);
  if (IsOffence(reason)) port.offences.Take(guest.network, port.options.limits().offences, now_);
  if (reason == EndReason::kMadeRoom) {
    guest.socket.End();
  } else {
    guest.socket.Abort();
  }
  uint64_t suppressed = 0;
  if (!end_pace_[static_cast<size_t>(reason)].Due(&suppressed)) return;
  Log(LogLevel::kWarning, "a connection was ended",
      {{"port", port.options.name},
       {"peer", guest.name},
       {"reason", kEndReasonNames[static_cast<size_t>(reason)]},
       {"unfinished_bytes", guest.record.unfinished()},
       {"not_logged_before", suppressed}});
}

// A failed handshake's socket is closed soon after gRPC tells of it. If only one was, it is named.
void FrontDoor::TellHandshakes() {
  for (;;) {
    FailedHandshake failed;
    {
      const std::lock_guard lock(handshakes_mutex_);
      if (failed_handshakes_.empty()) return;
      if (SteadyClock::now() < failed_handshakes_.front().at + kUntilClosed) return;
      failed = std::move(failed_handshakes_.front());
      failed_handshakes_.pop_front();
    }
    std::vector<std::string> peers;
    for (const auto& [when, name] : gone_early_) {
      if (when >= failed.at && when <= failed.at + 2 * kUntilClosed) peers.push_back(name);
    }
    LogFailedHandshake(failed, PeersInWords(std::move(peers)));
  }
}

void FrontDoor::JudgeReachability() {
  const bool descriptors = spare_.Take() && spare_.IsAnotherLeft();
  if (shut_since_ && descriptors && FirstPortHasRoom()) shut_since_.reset();
  const bool shut = shut_since_ && now_ - *shut_since_ >= kShutGrace;
  if (shut == told_shut_) return;
  told_shut_ = shut;
  hooks_.on_reachable(!shut);
}

// What a newcomer would find.
bool FrontDoor::FirstPortHasRoom() {
  DoorPort& port = ports_.front();
  const PortLimits limits = port.options.limits();
  return port.counted() < MaxConnections(port, limits) || !port.anteroom.empty() ||
         ChooseVictim(port, {}) != nullptr;
}

}  // namespace lodgekv::server
