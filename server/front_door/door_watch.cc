// What the front door does with admitted connections: checks, closes and removes them.

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_join.h"
#include "server/base/log.h"
#include "server/front_door/door_port.h"
#include "server/front_door/frame_guard.h"
#include "server/front_door/front_door.h"
#include "server/front_door/stream_counts.h"

namespace lodgekv::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using SteadyClock = std::chrono::steady_clock;

// Which connections may be closed in favour of a new one, and from what age. In TLS and in HTTP/2
// the client sends first, and at once, so a client that has sent nothing hardly intends to: 30 ms
// suffice for a check of what it sent. The second allows a few round trips over the longest network
// path.
constexpr milliseconds kSilentGrace{30};
constexpr milliseconds kNoRequestGrace{2'000};
constexpr seconds kIdleGrace{60};

// How long no connection could be admitted before health reports it.
constexpr seconds kUnreachableGrace{2};
constexpr milliseconds kBetweenReaps{2};
// Closed by us while gRPC has not yet closed their descriptors: gRPC is too slow to follow. Further
// connections wait in the kernel's queue for so long; if it still has not followed, they are
// refused.
constexpr uint64_t kMaxClosing = FrontDoor::kSpareDescriptors / 2;
constexpr seconds kCrowdedGrace{1};
constexpr seconds kBetweenMarks{10};
// A connection that moves so many bytes between two checks is checked more often.
constexpr uint64_t kHotBytes = uint64_t{256} << 10;
// Transports of connections with so many bytes are searched even between two checks of all.
constexpr uint64_t kWorthFinding = uint64_t{16} << 10;
// gRPC logs the failure before it closes the socket, and closes it soon after.
constexpr milliseconds kUntilClosed{100};
constexpr size_t kMaxClosedEarly = 64;
constexpr size_t kMaxNamed = 4;
// No smaller connection is closed for what all have together.
constexpr uint64_t kSmallUnfinished = uint64_t{1} << 20;

// Offences: what only a malicious or a broken client does. Not an offence: to be the largest when
// all have too much together; or a stalled request, since the network may have failed, and one
// request per message_timeout is no way to do harm.
bool IsOffence(EndReason reason) {
  return reason == EndReason::kUnfinished || reason == EndReason::kResets ||
         reason == EndReason::kFrames || reason == EndReason::kInvalid;
}

std::string PeersInWords(std::vector<std::string> peers) {
  if (peers.empty()) return "unknown";
  if (peers.size() == 1) return peers.front();
  const size_t more = peers.size() - std::min(peers.size(), kMaxNamed);
  peers.resize(peers.size() - more);
  std::string words = "one of " + absl::StrJoin(peers, ", ");
  if (more != 0) words += " and " + std::to_string(more) + " more";
  return words;
}

}  // namespace

bool FrontDoor::IsCrowded(DoorPort& port) {
  if (port.closing >= kMaxClosing && now_ - port.reaped >= kBetweenReaps) Reap(port);
  if (port.closing < kMaxClosing) {
    port.crowded_since.reset();
  } else if (!port.crowded_since) {
    port.crowded_since = now_;
  }
  return port.crowded_since.has_value();
}

// A client that comes while many others are being ended is better off in the kernel's queue than
// refused: it is let in some milliseconds later.
bool FrontDoor::IsWaitingForCloses(DoorPort& port) {
  return IsCrowded(port) && now_ - *port.crowded_since < kCrowdedGrace;
}

FrontDoor::Room FrontDoor::MakeRoom(DoorPort& port, const AcceptedConnection& accepted,
                                    const PortLimits& limits) {
  if (IsCrowded(port)) return Room::kPort;
  const std::string address(AddressOf(accepted.name));
  const auto full = [&] { return port.counted() >= MaxConnections(port, limits); };
  const auto peer_full = [&] {
    const auto found = port.of_peer.find(address);
    return found != port.of_peer.end() && found->second >= limits.max_connections_per_peer;
  };
  if ((full() || peer_full()) && now_ - port.reaped >= kBetweenReaps) Reap(port);
  if (peer_full()) {
    OpenConnection* const victim = ChooseVictim(port, address);
    if (victim == nullptr) return Room::kPeer;
    End(port, *victim, EndReason::kMadeRoom);
  }
  if (full()) {
    const std::optional<AcceptedConnection> waiting =
        port.delayed.TakeFromLongest(accepted.network);
    if (waiting) RefuseForRate(port, *waiting);
  }
  if (full()) {
    OpenConnection* const victim = ChooseVictim(port, {});
    if (victim == nullptr) return Room::kPort;
    End(port, *victim, EndReason::kMadeRoom);
  }
  return Room::kYes;
}

// The oldest of the least useful connections; of one peer, if an address is given. Null: none.
OpenConnection* FrontDoor::ChooseVictim(DoorPort& port, std::string_view address) {
  OpenConnection* best = nullptr;
  int best_rank = 3;
  for (const auto& connection : port.connections) {
    if (connection->ended || connection->in_table == nullptr) continue;
    if (!address.empty() && AddressOf(connection->name) != address) continue;
    const ConnectionRecord& record = connection->record;
    const auto age = now_ - record.accepted();
    int rank = 3;
    if (record.silent() && age >= kSilentGrace) {
      rank = 0;
    } else if (!record.has_asked() && age >= kNoRequestGrace) {
      rank = 1;
    } else if (record.idle_since() && now_ - *record.idle_since() >= kIdleGrace) {
      rank = 2;
    }
    // The connections are in the order of their arrival.
    if (rank >= best_rank) continue;
    best = connection.get();
    best_rank = rank;
  }
  return best;
}

uint64_t FrontDoor::MaxConnections(const DoorPort& port, const PortLimits& limits) const {
  return std::min(limits.max_connections, &port == &ports_.front() ? descriptor_room_ : UINT64_MAX);
}

// The first port is that for many clients; descriptors for the others are reserved.
void FrontDoor::FitToDescriptors() {
  if (ports_.empty()) return;
  uint64_t reserved = kSpareDescriptors;
  for (auto port = std::next(ports_.begin()); port != ports_.end(); ++port) {
    reserved += port->options.limits().max_connections;
  }
  const uint64_t free = FreeDescriptors();
  descriptor_room_ = std::max<uint64_t>(1, free > reserved ? free - reserved : free / 2);
  const uint64_t wanted = ports_.front().options.limits().max_connections;
  if (wanted <= descriptor_room_) return;
  Log(LogLevel::kWarning,
      "the process may have too few file descriptors for max_connections; raise its limit",
      {{"max_connections", wanted}, {"in_effect", descriptor_room_}});
}

bool FrontDoor::IsHot(const DoorPort& port, const OpenConnection& connection) const {
  return port.options.small || now_ < connection.hot_until;
}

bool FrontDoor::AnyHot() const {
  return std::any_of(ports_.begin(), ports_.end(), [this](const DoorPort& port) {
    return std::any_of(port.connections.begin(), port.connections.end(),
                       [&](const auto& connection) { return IsHot(port, *connection); });
  });
}

// Reads the sockets' counts, and removes closed connections.
void FrontDoor::Reap(DoorPort& port, bool all) {
  if (all) port.reaped = now_;
  EndFlooding();
  std::erase_if(port.connections, [&](const std::unique_ptr<OpenConnection>& connection) {
    if (!all && !IsHot(port, *connection)) return false;
    const std::optional<SocketUse> use = connection->socket.Read();
    if (use) connection->use = *use;
    if (use) return false;
    Remove(port, *connection);
    return true;
  });
  port.counters.open = port.connections.size();
}

// gRPC ends these itself, and has not told why: they are counted while they are still known.
void FrontDoor::EndFlooding() {
  for (const std::string& name : TakeFloodingConnections()) {
    for (DoorPort& port : ports_) {
      const auto named = port.by_name.find(name);
      if (named == port.by_name.end() || named->second->ended) continue;
      End(port, *named->second, EndReason::kFrames);
    }
  }
}

void FrontDoor::Remove(DoorPort& port, OpenConnection& connection) {
  if (connection.ended) {
    --port.closing;
  } else {
    UncountFromPeer(port, connection);
  }
  if (connection.in_table == nullptr) return;
  if (port.options.tls && !connection.record.has_transport()) {
    closed_early_.emplace_back(SteadyClock::now(), connection.name);
    if (closed_early_.size() > kMaxClosedEarly) closed_early_.pop_front();
  }
  table_.Remove(*connection.in_table);
  const auto named = port.by_name.find(connection.name);
  if (named != port.by_name.end() && named->second == &connection) port.by_name.erase(named);
}

void FrontDoor::UncountFromPeer(DoorPort& port, const OpenConnection& connection) {
  const std::string_view address = AddressOf(connection.name);
  const auto peer = port.of_peer.find(absl::string_view(address.data(), address.size()));
  if (--peer->second == 0) port.of_peer.erase(peer);
}

void FrontDoor::Check(bool all) {
  uint64_t total = 0;
  for (DoorPort& port : ports_) {
    const PortLimits limits = port.options.limits();
    Reap(port, all);
    FindTransports(port, all);
    uint64_t unfinished = 0;
    for (const auto& connection : port.connections) {
      if (connection->ended) continue;
      if (all || IsHot(port, *connection)) CheckConnection(port, *connection, limits);
      if (all) NoteTraffic(*connection);
      if (!connection->ended) unfinished += connection->record.unfinished();
    }
    port.counters.unfinished_bytes = unfinished;
    port.counters.limit = MaxConnections(port, limits);
    total += unfinished;
  }
  EndLargest(total);
  LogFailedHandshakes();
  if (!all) return;
  ReportReachability();
}

void FrontDoor::NoteTraffic(OpenConnection& connection) {
  const uint64_t moved = connection.use.bytes_read - connection.read_at_full_check;
  connection.read_at_full_check = connection.use.bytes_read;
  if (moved >= kHotBytes) connection.hot_until = now_ + OpenConnection::kHotFor;
}

// Finds gRPC's transports of the connections that have sent something.
void FrontDoor::FindTransports(DoorPort& port, bool all) {
  if (port.channelz_server == 0) return;
  const uint64_t least = all ? 0 : kWorthFinding;
  const bool wanted =
      std::any_of(port.connections.begin(), port.connections.end(), [&](const auto& connection) {
        return connection->transport == 0 && connection->in_table != nullptr &&
               !connection->ended && connection->use.bytes_read > least;
      });
  if (!wanted) return;
  if (now_ - port.marked >= kBetweenMarks) {
    port.search_from = port.newer;
    port.marked = now_;
  }
  VisitServerSockets(
      port.channelz_server, port.search_from, [&](intptr_t socket, std::string_view peer) {
        port.newer = std::max(port.newer, socket);
        const auto named = port.by_name.find(absl::string_view(peer.data(), peer.size()));
        if (named != port.by_name.end()) named->second->transport = socket;
      });
}

void FrontDoor::CheckConnection(DoorPort& port, OpenConnection& connection,
                                const PortLimits& limits) {
  std::optional<StreamCounts> streams;
  if (connection.transport != 0 && connection.record.WantsStreams(connection.use, now_)) {
    streams = ReadStreamCounts(connection.transport);
    if (!streams) connection.transport = 0;
  }
  RequestBytes requests;
  SessionCounts sessions;
  if (connection.in_table != nullptr) {
    const auto get = [](const std::atomic<uint64_t>& count) {
      return count.load(std::memory_order_relaxed);
    };
    const Connection& counts = *connection.in_table;
    requests = {.all = get(counts.request_bytes), .invalid = get(counts.invalid_bytes)};
    sessions = {.begun = get(counts.sessions),
                .open = get(counts.open_sessions),
                .messages = get(counts.session_messages)};
  }
  connection.record.Note(connection.use, streams, requests, sessions, limits.connection, now_);
  const std::optional<EndReason> offence = connection.record.Offence(limits.connection, now_);
  if (offence) End(port, connection, *offence);
}

// When all connections together have too much, closes the one that has most.
void FrontDoor::EndLargest(uint64_t total) {
  if (total <= hooks_.max_unfinished_total()) return;
  DoorPort* of_largest = nullptr;
  OpenConnection* largest = nullptr;
  for (DoorPort& port : ports_) {
    for (const auto& connection : port.connections) {
      if (connection->ended || connection->record.unfinished() <= kSmallUnfinished) continue;
      if (largest != nullptr && connection->record.unfinished() <= largest->record.unfinished())
        continue;
      largest = connection.get();
      of_largest = &port;
    }
  }
  if (largest != nullptr) End(*of_largest, *largest, EndReason::kLargest);
}

void FrontDoor::End(DoorPort& port, OpenConnection& connection, EndReason reason) {
  connection.ended = true;
  ++port.closing;
  UncountFromPeer(port, connection);
  port.counters.Ended(reason);
  if (IsOffence(reason))
    port.offences.Take(connection.network, port.options.limits().offences, now_);
  if (reason == EndReason::kMadeRoom) {
    connection.socket.End();
  } else {
    connection.socket.Abort();
  }
  uint64_t suppressed = 0;
  if (!end_pace_[static_cast<size_t>(reason)].Due(&suppressed)) return;
  Log(LogLevel::kWarning, "a connection was ended",
      {{"port", port.options.name},
       {"peer", connection.name},
       {"reason", kEndReasonNames[static_cast<size_t>(reason)]},
       {"unfinished_bytes", connection.record.unfinished()},
       {"not_logged_before", suppressed}});
}

// gRPC closes the socket of a failed handshake soon after it has logged it. The peer is named if
// only one closed in that time.
void FrontDoor::LogFailedHandshakes() {
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
    for (const auto& [when, name] : closed_early_) {
      if (when >= failed.at && when <= failed.at + 2 * kUntilClosed) peers.push_back(name);
    }
    LogFailedHandshake(failed, PeersInWords(std::move(peers)));
  }
}

void FrontDoor::ReportReachability() {
  const bool descriptors = spare_.Take() && spare_.IsAnotherLeft();
  if (unreachable_since_ && descriptors && FirstPortHasRoom()) unreachable_since_.reset();
  const bool shut = unreachable_since_ && now_ - *unreachable_since_ >= kUnreachableGrace;
  if (shut == reported_unreachable_) return;
  reported_unreachable_ = shut;
  hooks_.on_reachable(!shut);
}

// Whether a new connection would be admitted.
bool FrontDoor::FirstPortHasRoom() {
  DoorPort& port = ports_.front();
  const PortLimits limits = port.options.limits();
  return port.counted() < MaxConnections(port, limits) || !port.delayed.empty() ||
         ChooseVictim(port, {}) != nullptr;
}

}  // namespace lodgekv::server
