// The daemon's accept loop: accepts the connections of its ports, hands them to their servers, and
// checks them against their limits. It replaces gRPC's own loop, which ends for good when an accept
// fails for want of a descriptor, and has no limits (docs/decisions/0018).
//
// One thread accepts connections and, each kCheckInterval, checks all open ones: the byte counts of
// the socket, and the counts of its streams where they may have changed; connections that could do
// harm in a shorter time are checked more often. It closes a connection by shutting down its
// socket. Another thread hands connections over (handoff_thread.h). Their receiver (gRPC) owns the
// descriptors and closes them.
//
// INVARIANT  A connection counts from its accept until its owner has closed the descriptor, or the
//            door has closed the connection; so there are enough descriptors for all that count,
//            delayed ones (delayed_connections.h) included. A failing accept neither stops the loop
//            nor makes it spin. No connection is handed over before Start or after Stop.
// Thread safety: Open and Attach before Start; ports() and accept_failures() at any time.
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
#include "server/front_door/connection_record.h"
#include "server/front_door/delayed_connections.h"
#include "server/front_door/descriptors.h"
#include "server/front_door/door_counters.h"
#include "server/front_door/door_port.h"
#include "server/front_door/handoff_thread.h"
#include "server/front_door/port_options.h"
#include "server/front_door/unique_fd.h"

namespace lodgekv::server {

enum class AcceptFailure { kDescriptors, kMemory, kOther };
inline constexpr std::array<std::string_view, 3> kAcceptFailureNames{"descriptors", "memory",
                                                                     "other"};

class FrontDoor {
 public:
  static constexpr std::chrono::milliseconds kCheckInterval{100};
  // For the connections of small ports, and for those that are new or move many bytes.
  static constexpr std::chrono::milliseconds kHotCheckInterval{10};
  // Descriptors for other uses, and for connections that are being closed.
  static constexpr uint64_t kSpareDescriptors = 128;

  struct Hooks {
    // The limit for unfinished requests of all connections together.
    std::function<uint64_t()> max_unfinished_total;
    // False: for some seconds no connection could be admitted. Called from the door's thread.
    std::function<void(bool)> on_reachable;
  };

  FrontDoor(ConnectionTable& table, Hooks hooks);
  ~FrontDoor();

  // Binds and listens. Returns the address with its port; the error's message says in words what
  // failed.
  absl::StatusOr<std::string> Open(PortOptions options, const std::string& address);

  // For the port opened last: the function that receives its connections, on the hand-off thread,
  // and channelz' number of the server that serves them; 0: none, the streams are not counted.
  void Attach(std::function<void(int fd)> receiver, intptr_t channelz_server);

  void Start();
  // Accepts no more connections and closes the listening sockets. Open connections stay open.
  // Without effect the second time.
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
  DoorTime NextWakeup() const;
  bool AcceptOne(DoorPort& port, int listen_fd);
  void OnAccepted(DoorPort& port, AcceptedConnection accepted);
  bool MayAdmit(DoorPort& port, const AcceptedConnection& accepted, const PortLimits& limits);
  void AdmitDue();
  void Admit(DoorPort& port, AcceptedConnection accepted);
  void Refuse(DoorPort& port, RefuseReason reason, const std::string& name);
  void RefuseForRate(DoorPort& port, const AcceptedConnection& accepted);
  void RefuseForOffences(DoorPort& port, const AcceptedConnection& accepted, DoorTime until);
  bool OnAcceptError(DoorPort& port, int listen_fd, int error);

  bool IsCrowded(DoorPort& port);
  bool IsWaitingForCloses(DoorPort& port);
  Room MakeRoom(DoorPort& port, const AcceptedConnection& accepted, const PortLimits& limits);
  OpenConnection* ChooseVictim(DoorPort& port, std::string_view address);
  void Reap(DoorPort& port, bool all = true);
  void Remove(DoorPort& port, OpenConnection& connection);
  static void UncountFromPeer(DoorPort& port, const OpenConnection& connection);

  void Check(bool all);
  void NoteTraffic(OpenConnection& connection);
  void CheckConnection(DoorPort& port, OpenConnection& connection, const PortLimits& limits);
  void FindTransports(DoorPort& port, bool all);
  bool AnyHot() const;
  bool IsHot(const DoorPort& port, const OpenConnection& connection) const;
  void EndLargest(uint64_t total);
  void EndFlooding();
  void End(DoorPort& port, OpenConnection& connection, EndReason reason);
  void LogFailedHandshakes();
  void ReportReachability();
  bool FirstPortHasRoom();
  uint64_t MaxConnections(const DoorPort& port, const PortLimits& limits) const;
  void FitToDescriptors();

  ConnectionTable& table_;
  const Hooks hooks_;
  std::list<DoorPort> ports_;
  UniqueFd wake_;
  HandoffThread handoff_;
  std::thread thread_;
  std::atomic<bool> stop_{false};
  std::mutex handshakes_mutex_;
  std::deque<FailedHandshake> failed_handshakes_;  // guarded by it; to be logged with their peers

  // From here on used only by the door's thread.
  SpareDescriptor spare_;
  DoorTime now_;
  DoorTime next_check_;  // of all connections
  DoorTime next_hot_check_;
  // Nothing is accepted before.
  DoorTime paused_until_;
  // How many connections have descriptors, those of the smaller ports not included.
  uint64_t descriptor_room_ = 0;
  // The latest TLS connections that were closed before gRPC had made transports of them.
  std::deque<std::pair<DoorTime, std::string>> closed_early_;
  std::optional<DoorTime> unreachable_since_;
  bool reported_unreachable_ = false;

  std::array<std::atomic<uint64_t>, kAcceptFailureNames.size()> accept_failures_{};
  std::array<LinePace, kAcceptFailureNames.size()> failure_pace_;
  std::array<LinePace, kRefuseReasonNames.size()> refuse_pace_;
  std::array<LinePace, kEndReasonNames.size()> end_pace_;
  LinePace wait_pace_;
};

}  // namespace lodgekv::server
