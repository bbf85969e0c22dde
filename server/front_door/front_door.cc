// The door's thread: waiting, accepting, refusing. What it does with admitted connections is in
// door_watch.cc.
#include "server/front_door/front_door.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include "server/base/log.h"
#include "server/front_door/door_port.h"
#include "server/front_door/peer_name.h"

namespace lodgekv::server {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

// Bounded, so that no flood of connections keeps the door from its checks.
constexpr int kAcceptsPerTurn = 64;
// How long to wait after an accept lacked a descriptor or memory.
constexpr milliseconds kPause{10};
// The hand-off thread is behind: further connections are better off in the kernel's queue, where
// they take no descriptor. Here they would be closed in favour of those that come after them.
constexpr size_t kMaxWaiting = 64;
constexpr milliseconds kHandoffPause{1};
// Between looks whether gRPC has closed what was ended.
constexpr milliseconds kCrowdedPause{2};

AcceptFailure KindOf(int error) {
  if (error == EMFILE || error == ENFILE) return AcceptFailure::kDescriptors;
  if (error == ENOMEM || error == ENOBUFS) return AcceptFailure::kMemory;
  return AcceptFailure::kOther;
}

// The CPU time of this thread.
std::chrono::nanoseconds ThreadTime() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// The side that closes first keeps state of the connection for a minute, unless it resets it.
void ResetWhenClosed(const UniqueFd& fd) {
  constexpr linger kAtOnce{.l_onoff = 1, .l_linger = 0};
  (void)setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &kAtOnce, sizeof(kAtOnce));
}

}  // namespace

FrontDoor::FrontDoor(ConnectionTable& table, Hooks hooks)
    : table_(table), hooks_(std::move(hooks)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

FrontDoor::~FrontDoor() { Stop(); }

absl::StatusOr<std::string> FrontDoor::Open(PortOptions options, const std::string& address) {
  absl::StatusOr<ListenSocket> listener = ListenSocket::Open(address);
  if (!listener.ok()) return listener.status();
  ports_.emplace_back(std::move(options), *std::move(listener));
  return ports_.back().listener->address();
}

void FrontDoor::Attach(std::function<void(int fd)> receiver, intptr_t channelz_server) {
  ports_.back().receiver = std::move(receiver);
  ports_.back().channelz_server = channelz_server;
}

void FrontDoor::Start() {
  now_ = SteadyClock::now();
  next_check_ = now_;
  next_hot_check_ = now_;
  FitToDescriptors();
  const bool tls = std::any_of(ports_.begin(), ports_.end(),
                               [](const DoorPort& port) { return port.options.tls; });
  if (tls) {
    SetHandshakeReporter(this, [this](FailedHandshake failed) {
      const std::lock_guard lock(handshakes_mutex_);
      failed_handshakes_.push_back(std::move(failed));
    });
  }
  handoff_.Start();
  thread_ = std::thread([this] { Run(); });
}

void FrontDoor::Stop() {
  ClearHandshakeReporter(this);
  stop_.store(true);
  handoff_.Close();
  if (thread_.joinable()) {
    const uint64_t one = 1;
    (void)!write(wake_.get(), &one, sizeof(one));
    thread_.join();
  }
  handoff_.Stop();
  for (DoorPort& port : ports_) {
    port.listener.reset();
    for (const auto& connection : port.connections) {
      if (connection->in_table != nullptr) table_.Remove(*connection->in_table);
    }
    port.connections.clear();
    port.by_name.clear();
    port.delayed.Clear();
  }
}

std::vector<FrontDoor::PortView> FrontDoor::ports() const {
  std::vector<PortView> views;
  for (const DoorPort& port : ports_) views.push_back({port.options.name, port.counters});
  return views;
}

void FrontDoor::Run() {
  while (!stop_.load()) {
    AwaitEvents();
    const bool all = now_ >= next_check_;
    if (!all && now_ < next_hot_check_) continue;
    const auto worked = ThreadTime();
    Check(all);
    // With so many connections that the checks take long, they run less often: a tenth of a core is
    // enough. CPU time, not elapsed time: a check that had to wait for a processor during a flood
    // must not delay the next.
    const DoorTime done = SteadyClock::now();
    const auto least = (ThreadTime() - worked) * 10;
    next_hot_check_ = done + std::max<SteadyClock::duration>(kHotCheckInterval, least);
    if (all) next_check_ = done + std::max<SteadyClock::duration>(kCheckInterval, least);
  }
  // A connection that still occupies the hand-off thread is checked until its hand-over ends, or it
  // is closed.
  while (!handoff_.IsDone()) {
    std::this_thread::sleep_for(kHotCheckInterval);
    now_ = SteadyClock::now();
    Check(true);
  }
}

// Waits for connections, unless accepting is paused, or for the next check; accepts what has
// arrived.
void FrontDoor::AwaitEvents() {
  std::vector<pollfd> waiting{{wake_.get(), POLLIN, 0}};
  std::vector<DoorPort*> of_waiting{nullptr};
  now_ = SteadyClock::now();
  const bool paused = now_ < paused_until_;
  for (DoorPort& port : ports_) {
    if (paused || IsWaitingForCloses(port)) continue;
    for (const UniqueFd& socket : port.listener->sockets()) {
      waiting.push_back({socket.get(), POLLIN, 0});
      of_waiting.push_back(&port);
    }
  }
  const auto wait = std::max(milliseconds(0), duration_cast<milliseconds>(NextWakeup() - now_));
  // Rounded up: with a wait of 0 it would spin for the rest of the millisecond.
  if (poll(waiting.data(), waiting.size(), static_cast<int>(wait.count()) + 1) < 0) return;
  now_ = SteadyClock::now();
  AdmitDue();
  for (size_t i = 1; i < waiting.size(); ++i) {
    if (waiting[i].revents == 0) continue;
    for (int turn = 0; turn < kAcceptsPerTurn; ++turn) {
      if (handoff_.waiting() >= kMaxWaiting) {
        paused_until_ = now_ + kHandoffPause;
        return;
      }
      if (IsWaitingForCloses(*of_waiting[i])) break;
      if (!AcceptOne(*of_waiting[i], waiting[i].fd)) break;
    }
  }
}

// The next time with work to do if no connection arrives.
DoorTime FrontDoor::NextWakeup() const {
  DoorTime next = AnyHot() ? std::min(next_check_, next_hot_check_) : next_check_;
  if (now_ < paused_until_) next = std::min(next, paused_until_);
  for (const DoorPort& port : ports_) {
    if (port.crowded_since) next = std::min(next, now_ + kCrowdedPause);
    if (port.delayed.empty()) continue;
    const auto due = port.delayed.NextDue(port.options.limits().rate, now_);
    next = std::min(next, due.value_or(next));
  }
  return next;
}

// False: nothing more can be accepted now.
bool FrontDoor::AcceptOne(DoorPort& port, int listen_fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  UniqueFd fd(accept4(listen_fd, reinterpret_cast<sockaddr*>(&address), &size,
                      SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd) return OnAcceptError(port, listen_fd, errno);
  now_ = SteadyClock::now();
  OnAccepted(port, {std::move(fd), PeerName(address), PeerNetwork(address)});
  return true;
}

// Admits, refuses or delays it.
void FrontDoor::OnAccepted(DoorPort& port, AcceptedConnection accepted) {
  const PortLimits limits = port.options.limits();
  const auto decision = port.delayed.DecisionFor(accepted.network, limits.rate, now_);
  if (decision == DelayedConnections::Decision::kRefuse) return RefuseForRate(port, accepted);
  if (!MayAdmit(port, accepted, limits)) return;
  if (decision == DelayedConnections::Decision::kAdmit) {
    port.delayed.NoteAdmitted(accepted.network, limits.rate, now_);
    Admit(port, std::move(accepted));
    return;
  }
  uint64_t suppressed = 0;
  if (wait_pace_.Due(&suppressed)) {
    Log(LogLevel::kWarning, "a connection is delayed, its peer opens too many",
        {{"port", port.options.name},
         {"peer", accepted.network},
         {"waiting", port.delayed.size() + 1},
         {"not_logged_before", suppressed}});
  }
  port.delayed.Add(std::move(accepted));
  port.counters.waiting = port.delayed.size();
}

// Evicts another connection if necessary, or refuses this one.
bool FrontDoor::MayAdmit(DoorPort& port, const AcceptedConnection& accepted,
                         const PortLimits& limits) {
  if (const auto until = port.offences.EmptyUntil(accepted.network, limits.offences, now_)) {
    RefuseForOffences(port, accepted, *until);
    return false;
  }
  const Room room = MakeRoom(port, accepted, limits);
  if (room == Room::kPeer) Refuse(port, RefuseReason::kPeer, accepted.name);
  if (room == Room::kPort) {
    const bool descriptors = MaxConnections(port, limits) < limits.max_connections;
    Refuse(port, descriptors ? RefuseReason::kDescriptors : RefuseReason::kAll, accepted.name);
  }
  return room == Room::kYes;
}

void FrontDoor::AdmitDue() {
  for (DoorPort& port : ports_) {
    if (port.delayed.empty()) continue;
    const size_t before = handoff_.waiting();
    if (before >= kMaxWaiting) return;
    const PortLimits limits = port.options.limits();
    for (AcceptedConnection& due : port.delayed.TakeDue(limits.rate, now_, kMaxWaiting - before)) {
      if (MayAdmit(port, due, limits)) Admit(port, std::move(due));
    }
    port.counters.waiting = port.delayed.size();
  }
}

void FrontDoor::Admit(DoorPort& port, AcceptedConnection accepted) {
  auto connection = std::make_unique<OpenConnection>(accepted.fd.get(), std::move(accepted.name),
                                                     std::move(accepted.network), now_);
  if (!IsUnixAddress(connection->name)) {
    connection->in_table = table_.Add(connection->name);
    port.by_name[connection->name] = connection.get();
  }
  ++port.of_peer[std::string(AddressOf(connection->name))];
  port.connections.push_back(std::move(connection));
  ++port.counters.accepted;
  port.counters.open = port.connections.size();
  if (unreachable_since_) unreachable_since_.reset();
  handoff_.HandOver(port.receiver, std::move(accepted.fd));
}

void FrontDoor::Refuse(DoorPort& port, RefuseReason reason, const std::string& name) {
  port.counters.Refused(reason);
  const bool others_too = reason == RefuseReason::kAll || reason == RefuseReason::kDescriptors;
  if (others_too && !unreachable_since_) unreachable_since_ = now_;
  uint64_t suppressed = 0;
  if (!refuse_pace_[static_cast<size_t>(reason)].Due(&suppressed)) return;
  Log(LogLevel::kWarning, "a connection was refused",
      {{"port", port.options.name},
       {"peer", name},
       {"limit", kRefuseReasonNames[static_cast<size_t>(reason)]},
       {"open", port.counted()},
       {"not_logged_before", suppressed}});
}

void FrontDoor::RefuseForRate(DoorPort& port, const AcceptedConnection& accepted) {
  ResetWhenClosed(accepted.fd);
  port.counters.waiting = port.delayed.size();
  Refuse(port, RefuseReason::kRate, accepted.name);
}

void FrontDoor::RefuseForOffences(DoorPort& port, const AcceptedConnection& accepted,
                                  DoorTime until) {
  port.counters.Refused(RefuseReason::kOffences);
  ResetWhenClosed(accepted.fd);
  uint64_t suppressed = 0;
  if (!refuse_pace_[static_cast<size_t>(RefuseReason::kOffences)].Due(&suppressed)) return;
  const auto left = duration_cast<milliseconds>(until - now_);
  Log(LogLevel::kWarning, "a peer is refused, its connections were ended too often",
      {{"port", port.options.name},
       {"peer", accepted.network},
       {"again_in_ms", left.count()},
       {"not_logged_before", suppressed}});
}

bool FrontDoor::OnAcceptError(DoorPort& port, int listen_fd, int error) {
  if (error == EAGAIN || error == EINTR) return error == EINTR;
  const AcceptFailure kind = KindOf(error);
  ++accept_failures_[static_cast<size_t>(kind)];
  uint64_t suppressed = 0;
  if (failure_pace_[static_cast<size_t>(kind)].Due(&suppressed)) {
    Log(LogLevel::kWarning, "a connection could not be accepted",
        {{"port", port.options.name},
         {"what", std::strerror(error)},
         {"not_logged_before", suppressed}});
  }
  // Such as a client that has disconnected again; the next accept may succeed.
  if (kind == AcceptFailure::kOther) return true;
  if (!unreachable_since_) unreachable_since_ = now_;
  if (kind == AcceptFailure::kMemory) {
    paused_until_ = now_ + kPause;
    return false;
  }
  // The client gets a refusal instead of waiting for a descriptor that may not become free.
  spare_.GiveUp();
  UniqueFd refused(accept4(listen_fd, nullptr, nullptr, SOCK_CLOEXEC));
  const bool more = static_cast<bool>(refused);
  if (more) port.counters.Refused(RefuseReason::kDescriptors);
  refused.Reset();
  (void)spare_.Take();
  if (!more) paused_until_ = now_ + kPause;
  return more;
}

}  // namespace lodgekv::server
