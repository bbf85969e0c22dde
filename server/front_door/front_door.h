// The daemon's accept loop: takes the connections of its gRPC ports, hands them on, and keeps watch
// over them. In the place of gRPC's own, since that one ends for good at the first accept that
// fails for want of a descriptor, and knows no limits (docs/decisions/0018).
//
// One thread accepts and, each kLookInterval, looks at every open connection: at the bytes of its
// socket, and at the counts of its streams where these may have moved; in between at those that may
// do harm in so short a time. It ends a connection by shutting its socket down. Another thread
// hands connections on (usher.h). Whoever took the descriptor (gRPC) owns it and closes it.
//
// INVARIANT  A connection counts from its accept until its owner has closed the descriptor, or the
//            door has ended it; so descriptors suffice for all that count, those that wait to be
//            let in (anteroom.h) among them. A failing accept neither
//            stops the loop nor makes it spin. Nothing is handed on before Start or after Stop.
// Thread safety: Open and Attach before Start; counters() at any time.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/connection_table.h"
#include "server/base/handshake_log.h"
#include "server/base/line_pace.h"
#include "server/front_door/anteroom.h"
#include "server/front_door/connection_record.h"
#include "server/front_door/descriptors.h"
#include "server/front_door/door_counters.h"
#include "server/front_door/door_port.h"
#include "server/front_door/port_options.h"
#include "server/front_door/unique_fd.h"
#include "server/front_door/usher.h"

namespace lodgekv::server {

enum class AcceptFailure { kDescriptors, kMemory, kOther };
inline constexpr std::array<std::string_view, 3> kAcceptFailureNames{"descriptors", "memory",
                                                                     "other"};

class FrontDoor {
 public:
  static constexpr std::chrono::milliseconds kLookInterval{100};
  // Of the connections of small ports, and of those that are new or move much.
  static constexpr std::chrono::milliseconds kHotLookInterval{10};
  // A connection beyond them may be on its way out.
  static constexpr uint64_t kSpareDescriptors = 128;

  struct Hooks {
    // The most that unfinished requests of all connections may take.
    std::function<uint64_t()> max_unfinished_total;
    // False: for some seconds nobody could be let in. From the door's thread.
    std::function<void(bool)> on_reachable;
  };

  FrontDoor(ConnectionTable& connections, Hooks hooks);
  ~FrontDoor();

  // Binds and listens; the address with its port. The error's message says why not, in words.
  absl::StatusOr<std::string> Open(PortOptions options, const std::string& address);

  // Who takes the connections of the port opened last, in the usher's thread, and the number that
  // channelz gives the server behind it; 0: none, its streams are not counted.
  void Attach(std::function<void(int fd)> consumer, intptr_t channelz_server);

  void Start();
  // No connection is taken any more, and the sockets that listened are closed. Those that are open
  // stay. Without effect the second time.
  void Stop();

  struct PortView {
    std::string_view name;
    const DoorCounters& counters;
  };
  std::vector<PortView> ports() const;
  uint64_t accept_failures(AcceptFailure kind) const {
    return accept_failures_[static_cast<size_t>(kind)].load(std::memory_order_relaxed);
  }

 private:
  enum class Room { kYes, kPort, kPeer };

  void Run();
  void AwaitEvents();
  DoorTime NextTurn() const;
  bool AcceptOne(DoorPort& port, int listen_fd);
  void Receive(DoorPort& port, Newcomer newcomer);
  bool MayComeIn(DoorPort& port, const Newcomer& newcomer, const PortLimits& limits);
  void LetWaitingIn();
  void Admit(DoorPort& port, Newcomer newcomer);
  void Refuse(DoorPort& port, RefuseReason reason, const std::string& name);
  void RefuseForRate(DoorPort& port, const Newcomer& newcomer);
  void Bar(DoorPort& port, const Newcomer& newcomer, DoorTime until);
  bool OnAcceptError(DoorPort& port, int listen_fd, int error);

  Room MakeRoom(DoorPort& port, const Newcomer& newcomer, const PortLimits& limits);
  Guest* ChooseVictim(DoorPort& port, std::string_view address);
  void Reap(DoorPort& port, bool whole = true);
  void Forget(DoorPort& port, Guest& guest);
  static void LeavePeer(DoorPort& port, const Guest& guest);

  void Look(bool whole);
  void NoteHeat(Guest& guest);
  void LookAt(DoorPort& port, Guest& guest, const PortLimits& limits);
  void FindTransports(DoorPort& port, bool whole);
  bool AnyHot() const;
  bool IsHot(const DoorPort& port, const Guest& guest) const;
  void EndLargest(uint64_t total);
  void End(DoorPort& port, Guest& guest, EndReason reason);
  void TellHandshakes();
  void JudgeReachability();
  bool FirstPortHasRoom();
  uint64_t MaxConnections(const DoorPort& port, const PortLimits& limits) const;
  void FitToDescriptors();

  ConnectionTable& connections_;
  const Hooks hooks_;
  std::list<DoorPort> ports_;
  UniqueFd wake_;
  Usher usher_;
  std::thread thread_;
  std::atomic<bool> stop_{false};
  std::mutex handshakes_mutex_;
  std::deque<FailedHandshake> failed_handshakes_;  // guarded by it; whose peers are to be found

  // Of the door's thread alone from here on.
  SpareDescriptor spare_;
  DoorTime now_;
  DoorTime next_look_;  // at all
  DoorTime next_hot_look_;
  // No accept is tried before.
  DoorTime paused_until_;
  // How many connections have descriptors, beside those of the smaller ports.
  uint64_t descriptor_room_ = 0;
  // Of TLS, and gone before they were known to have become transports of gRPC; the latest.
  std::deque<std::pair<DoorTime, std::string>> gone_early_;
  std::optional<DoorTime> shut_since_;
  bool told_shut_ = false;

  std::array<std::atomic<uint64_t>, kAcceptFailureNames.size()> accept_failures_{};
  std::array<LinePace, kAcceptFailureNames.size()> failure_pace_;
  std::array<LinePace, kRefuseReasonNames.size()> refuse_pace_;
  std::array<LinePace, kEndReasonNames.size()> end_pace_;
  LinePace wait_pace_;
};

}  // namespace lodgekv::server
