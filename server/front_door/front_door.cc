// The door's thread: waiting, accepting, refusing. What it does with the connections it let in is
// in door_watch.cc.
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

// So that no flood of connections keeps the door from its looks.
constexpr int kAcceptsPerTurn = 64;
// What an accept needs was wanting: time for it to come back.
constexpr milliseconds kPause{10};
// The usher is behind: the others are better off in the kernel's queue, where they take no
// descriptor, than with us, where they would be ended for those that come after them.
constexpr size_t kMostWaiting = 64;
constexpr milliseconds kUsherPause{1};

AcceptFailure KindOf(int error) {
  if (error == EMFILE || error == ENFILE) return AcceptFailure::kDescriptors;
  if (error == ENOMEM || error == ENOBUFS) return AcceptFailure::kMemory;
  return AcceptFailure::kOther;
}

// That this thread has worked.
std::chrono::nanoseconds ThreadTime() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// Who closes first keeps what is left of the connection for a minute, but for a reset.
void ResetWhenClosed(const UniqueFd& fd) {
  constexpr linger kAtOnce{.l_onoff = 1, .l_linger = 0};
  (void)setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &kAtOnce, sizeof(kAtOnce));
}

}  // namespace

FrontDoor::FrontDoor(ConnectionTable& connections, Hooks hooks)
    : connections_(connections),
      hooks_(std::move(hooks)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

FrontDoor::~FrontDoor() { Stop(); }

absl::StatusOr<std::string> FrontDoor::Open(PortOptions options, const std::string& address) {
  absl::StatusOr<ListenSocket> listener = ListenSocket::Open(address);
  if (!listener.ok()) return listener.status();
  ports_.emplace_back(std::move(options), *std::move(listener));
  return ports_.back().listener->address();
}

void FrontDoor::Attach(std::function<void(int fd)> consumer, intptr_t channelz_server) {
  ports_.back().consumer = std::move(consumer);
  ports_.back().channelz_server = channelz_server;
}

void FrontDoor::Start() {
  now_ = SteadyClock::now();
  next_look_ = now_;
  next_hot_look_ = now_;
  FitToDescriptors();
  const bool tls = std::any_of(ports_.begin(), ports_.end(),
                               [](const DoorPort& port) { return port.options.tls; });
  if (tls) {
    SetHandshakeTeller(this, [this](FailedHandshake failed) {
      const std::lock_guard lock(handshakes_mutex_);
      failed_handshakes_.push_back(std::move(failed));
    });
  }
  usher_.Start();
  thread_ = std::thread([this] { Run(); });
}

void FrontDoor::Stop() {
  ForgetHandshakeTeller(this);
  stop_.store(true);
  usher_.Close();
  if (thread_.joinable()) {
    const uint64_t one = 1;
    (void)!write(wake_.get(), &one, sizeof(one));
    thread_.join();
  }
  usher_.Stop();
  for (DoorPort& port : ports_) {
    port.listener.reset();
    for (const auto& guest : port.guests) {
      if (guest->connection != nullptr) connections_.Remove(*guest->connection);
    }
    port.guests.clear();
    port.by_name.clear();
    port.anteroom.Clear();
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
    const bool whole = now_ >= next_look_;
    if (!whole && now_ < next_hot_look_) continue;
    const auto worked = ThreadTime();
    Look(whole);
    // With so many connections that it takes its time, less often: a tenth of a core is enough. Its
    // own time: a look that had to wait for a processor, beside a flood, must not put off the next.
    const DoorTime done = SteadyClock::now();
    const auto least = (ThreadTime() - worked) * 10;
    next_hot_look_ = done + std::max<SteadyClock::duration>(kHotLookInterval, least);
    if (whole) next_look_ = done + std::max<SteadyClock::duration>(kLookInterval, least);
  }
  // Who keeps the usher is looked at until he lets go, or is ended.
  while (!usher_.IsDone()) {
    std::this_thread::sleep_for(kHotLookInterval);
    now_ = SteadyClock::now();
    Look(true);
  }
}

// Waits for connections, but while accepting is paused, or for the next look; accepts what came.
void FrontDoor::AwaitEvents() {
  std::vector<pollfd> waiting{{wake_.get(), POLLIN, 0}};
  std::vector<DoorPort*> of_waiting{nullptr};
  now_ = SteadyClock::now();
  const bool paused = now_ < paused_until_;
  for (DoorPort& port : ports_) {
    for (const UniqueFd& socket : port.listener->sockets()) {
      if (paused) continue;
      waiting.push_back({socket.get(), POLLIN, 0});
      of_waiting.push_back(&port);
    }
  }
  const auto wait = std::max(milliseconds(0), duration_cast<milliseconds>(NextTurn() - now_));
  // Rounded up: a wait of nothing at all would spin for the rest of the millisecond.
  if (poll(waiting.data(), waiting.size(), static_cast<int>(wait.count()) + 1) < 0) return;
  now_ = SteadyClock::now();
  LetWaitingIn();
  for (size_t i = 1; i < waiting.size(); ++i) {
    if (waiting[i].revents == 0) continue;
    for (int turn = 0; turn < kAcceptsPerTurn; ++turn) {
      if (usher_.waiting() >= kMostWaiting) {
        paused_until_ = now_ + kUsherPause;
        return;
      }
      if (!AcceptOne(*of_waiting[i], waiting[i].fd)) break;
    }
  }
}

// When there is something to do, if nobody comes.
DoorTime FrontDoor::NextTurn() const {
  DoorTime next = AnyHot() ? std::min(next_look_, next_hot_look_) : next_look_;
  if (now_ < paused_until_) next = std::min(next, paused_until_);
  for (const DoorPort& port : ports_) {
    if (port.anteroom.empty()) continue;
    const auto due = port.anteroom.NextDue(port.options.limits().entries, now_);
    next = std::min(next, due.value_or(next));
  }
  return next;
}

// False: there is nothing more to accept, or not now.
bool FrontDoor::AcceptOne(DoorPort& port, int listen_fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  UniqueFd fd(accept4(listen_fd, reinterpret_cast<sockaddr*>(&address), &size,
                      SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd) return OnAcceptError(port, listen_fd, errno);
  now_ = SteadyClock::now();
  Receive(port, {std::move(fd), PeerName(address), PeerNetwork(address)});
  return true;
}

// Lets it in, refuses it, or has it wait.
void FrontDoor::Receive(DoorPort& port, Newcomer newcomer) {
  const PortLimits limits = port.options.limits();
  const auto place = port.anteroom.PlaceFor(newcomer.network, limits.entries, now_);
  if (place == Anteroom::Place::kNone) return RefuseForRate(port, newcomer);
  if (!MayComeIn(port, newcomer, limits)) return;
  if (place == Anteroom::Place::kInside) {
    port.anteroom.NoteEntry(newcomer.network, limits.entries, now_);
    Admit(port, std::move(newcomer));
    return;
  }
  uint64_t suppressed = 0;
  if (wait_pace_.Due(&suppressed)) {
    Log(LogLevel::kWarning, "a connection is delayed, its peer opens too many",
        {{"port", port.options.name},
         {"peer", newcomer.network},
         {"waiting", port.anteroom.size() + 1},
         {"not_logged_before", suppressed}});
  }
  port.anteroom.Add(std::move(newcomer));
  port.counters.waiting = port.anteroom.size();
}

// Makes room where there is none, or refuses it.
bool FrontDoor::MayComeIn(DoorPort& port, const Newcomer& newcomer, const PortLimits& limits) {
  if (const auto until = port.offences.EmptyUntil(newcomer.network, limits.offences, now_)) {
    Bar(port, newcomer, *until);
    return false;
  }
  const Room room = MakeRoom(port, newcomer, limits);
  if (room == Room::kPeer) Refuse(port, RefuseReason::kPeer, newcomer.name);
  if (room == Room::kPort) {
    const bool descriptors = MaxConnections(port, limits) < limits.max_connections;
    Refuse(port, descriptors ? RefuseReason::kDescriptors : RefuseReason::kAll, newcomer.name);
  }
  return room == Room::kYes;
}

void FrontDoor::LetWaitingIn() {
  for (DoorPort& port : ports_) {
    if (port.anteroom.empty()) continue;
    const size_t before = usher_.waiting();
    if (before >= kMostWaiting) return;
    const PortLimits limits = port.options.limits();
    for (Newcomer& due : port.anteroom.TakeDue(limits.entries, now_, kMostWaiting - before)) {
      if (MayComeIn(port, due, limits)) Admit(port, std::move(due));
    }
    port.counters.waiting = port.anteroom.size();
  }
}

void FrontDoor::Admit(DoorPort& port, Newcomer newcomer) {
  auto guest = std::make_unique<Guest>(newcomer.fd.get(), std::move(newcomer.name),
                                       std::move(newcomer.network), now_);
  if (!IsUnixAddress(guest->name)) {
    guest->connection = connections_.Add(guest->name);
    port.by_name[guest->name] = guest.get();
  }
  ++port.of_peer[std::string(AddressOf(guest->name))];
  port.guests.push_back(std::move(guest));
  ++port.counters.accepted;
  port.counters.open = port.guests.size();
  if (shut_since_) shut_since_.reset();
  usher_.HandOn(port.consumer, std::move(newcomer.fd));
}

void FrontDoor::Refuse(DoorPort& port, RefuseReason reason, const std::string& name) {
  port.counters.Refused(reason);
  const bool others_too = reason == RefuseReason::kAll || reason == RefuseReason::kDescriptors;
  if (others_too && !shut_since_) shut_since_ = now_;
  uint64_t suppressed = 0;
  if (!refuse_pace_[static_cast<size_t>(reason)].Due(&suppressed)) return;
  Log(LogLevel::kWarning, "a connection was refused",
      {{"port", port.options.name},
       {"peer", name},
       {"limit", kRefuseReasonNames[static_cast<size_t>(reason)]},
       {"open", port.counted()},
       {"not_logged_before", suppressed}});
}

void FrontDoor::RefuseForRate(DoorPort& port, const Newcomer& newcomer) {
  ResetWhenClosed(newcomer.fd);
  port.counters.waiting = port.anteroom.size();
  Refuse(port, RefuseReason::kRate, newcomer.name);
}

void FrontDoor::Bar(DoorPort& port, const Newcomer& newcomer, DoorTime until) {
  port.counters.Refused(RefuseReason::kOffences);
  ResetWhenClosed(newcomer.fd);
  uint64_t suppressed = 0;
  if (!refuse_pace_[static_cast<size_t>(RefuseReason::kOffences)].Due(&suppressed)) return;
  const auto left = duration_cast<milliseconds>(until - now_);
  Log(LogLevel::kWarning, "a peer is refused, its connections were ended too often",
      {{"port", port.options.name},
       {"peer", newcomer.network},
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
  // Such as a client that has gone away again: the next may be there.
  if (kind == AcceptFailure::kOther) return true;
  if (!shut_since_) shut_since_ = now_;
  if (kind == AcceptFailure::kMemory) {
    paused_until_ = now_ + kPause;
    return false;
  }
  // Who waits is told, and not left to wait for a descriptor that may not come.
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
