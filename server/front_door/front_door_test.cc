// The front door alone, with a receiver that keeps the descriptors.
#include "server/front_door/front_door.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/front_door/handoff_thread.h"
#include "server/front_door/listen_socket.h"
#include "server/front_door/peer_name.h"
#include "server/front_door/watched_socket.h"
#include "server/testing/temp_folder.h"

namespace lodgekv::server {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;

UniqueFd ConnectTo(const std::string& address, const char* source = "127.0.0.1") {
  const size_t colon = address.rfind(':');
  sockaddr_in peer{};
  peer.sin_family = AF_INET;
  peer.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(colon + 1))));
  inet_pton(AF_INET, "127.0.0.1", &peer.sin_addr);
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in own{};
  own.sin_family = AF_INET;
  inet_pton(AF_INET, source, &own.sin_addr);
  EXPECT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&own), sizeof(own)), 0);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&peer), sizeof(peer)), 0);
  return fd;
}

bool Await(const std::function<bool()>& is_so) {
  for (int i = 0; i < 500; ++i) {
    if (is_so()) return true;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return false;
}

// The server's side has closed or reset it.
bool IsEndedNow(const UniqueFd& fd) {
  char byte = 0;
  const ssize_t n = recv(fd.get(), &byte, 1, MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN);
}

bool IsEnded(const UniqueFd& fd) {
  return Await([&] { return IsEndedNow(fd); });
}

TEST(ListenSocketTest, ReportsTheChosenPortAndKeepsIt) {
  const auto first = ListenSocket::Open("127.0.0.1:0");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(first->address(), StartsWith("127.0.0.1:"));
  EXPECT_NE(first->address(), "127.0.0.1:0");
  const auto second = ListenSocket::Open(first->address());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().message(), "another process is using it");
  const UniqueFd client = ConnectTo(first->address());
}

TEST(ListenSocketTest, WildcardsTakeBothFamilies) {
  for (const char* address : {"[::]:0", "0.0.0.0:0"}) {
    const auto listener = ListenSocket::Open(address);
    ASSERT_TRUE(listener.ok()) << listener.status();
    const UniqueFd client = ConnectTo(listener->address());
  }
}

TEST(ListenSocketTest, ReportsWhyItCannotListen) {
  EXPECT_EQ(ListenSocket::Open("192.0.2.1:1").status().message(),
            "no network interface of this machine has that address");
  EXPECT_THAT(std::string(ListenSocket::Open("nosuch.invalid:1").status().message()),
              HasSubstr("cannot be resolved"));
  EXPECT_THAT(std::string(ListenSocket::Open("unix:/nosuch/folder/x").status().message()),
              HasSubstr("not writable"));
}

class UnixListenTest : public TempFolderTest {};

TEST_F(UnixListenTest, BelongsToItsOwnerAndIsRemovedWithTheObject) {
  const std::string path = directory_ / "socket";
  const mode_t before = umask(0);
  {
    auto listener = ListenSocket::Open("unix:" + path);
    ASSERT_TRUE(listener.ok()) << listener.status();
    struct stat status {};
    ASSERT_EQ(stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600U);
    EXPECT_EQ(ListenSocket::Open("unix:" + path).status().message(), "another process is using it");
    const ListenSocket moved(*std::move(listener));
    EXPECT_EQ(stat(path.c_str(), &status), 0);
  }
  umask(before);
  struct stat status {};
  EXPECT_NE(stat(path.c_str(), &status), 0);
}

TEST_F(UnixListenTest, ReplacesAStaleSocketAndNothingElse) {
  const std::string path = directory_ / "socket";
  {
    const UniqueFd left(socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    path.copy(name.sun_path, sizeof(name.sun_path) - 1);
    ASSERT_EQ(bind(left.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)), 0);
  }
  EXPECT_TRUE(ListenSocket::Open("unix:" + path).ok());
  const UniqueFd file(creat(path.c_str(), 0600));
  EXPECT_FALSE(ListenSocket::Open("unix:" + path).ok());
}

TEST(PeerNameTest, IsAsGrpcNamesIt) {
  sockaddr_storage address{};
  auto& ipv6 = reinterpret_cast<sockaddr_in6&>(address);
  ipv6.sin6_family = AF_INET6;
  ipv6.sin6_port = htons(4711);
  inet_pton(AF_INET6, "2001:db8::1", &ipv6.sin6_addr);
  EXPECT_EQ(PeerName(address), "ipv6:%5B2001:db8::1%5D:4711");
  inet_pton(AF_INET6, "::ffff:192.0.2.1", &ipv6.sin6_addr);
  EXPECT_EQ(PeerName(address), "ipv4:192.0.2.1:4711");
  EXPECT_EQ(PeerName({}), "unix:");
}

TEST(PeerNetworkTest, IsTheAddressAndForIpv6ItsFirstHalf) {
  sockaddr_storage address{};
  auto& ipv6 = reinterpret_cast<sockaddr_in6&>(address);
  ipv6.sin6_family = AF_INET6;
  inet_pton(AF_INET6, "2001:db8:1:2:3:4:5:6", &ipv6.sin6_addr);
  EXPECT_EQ(PeerNetwork(address), "2001:db8:1:2::/64");
  inet_pton(AF_INET6, "::ffff:192.0.2.1", &ipv6.sin6_addr);
  EXPECT_EQ(PeerNetwork(address), "192.0.2.1");
  auto& ipv4 = reinterpret_cast<sockaddr_in&>(address);
  ipv4.sin_family = AF_INET;
  inet_pton(AF_INET, "192.0.2.7", &ipv4.sin_addr);
  EXPECT_EQ(PeerNetwork(address), "192.0.2.7");
  EXPECT_EQ(PeerNetwork({}), "");
}

// Bytes that arrive, or are read, during a call.
TEST(WatchedSocketTest, CountsNeverDecrease) {
  constexpr int kLooks = 100'000;
  const auto listener = ListenSocket::Open("127.0.0.1:0");
  ASSERT_TRUE(listener.ok()) << listener.status();
  const UniqueFd client = ConnectTo(listener->address());
  const UniqueFd served(accept(listener->sockets().front().get(), nullptr, nullptr));
  std::thread writer([&] {
    const char bytes[13] = {};
    while (send(client.get(), bytes, sizeof(bytes), MSG_NOSIGNAL) > 0) sched_yield();
  });
  std::thread reader([&] {
    char bytes[64];
    while (recv(served.get(), bytes, sizeof(bytes), 0) > 0) sched_yield();
  });
  WatchedSocket watched(served.get());
  uint64_t before = 0;
  int fell = 0;
  for (int i = 0; i < kLooks; ++i) {
    const auto use = watched.Read();
    ASSERT_TRUE(use.has_value());
    fell += use->bytes_read < before ? 1 : 0;
    before = use->bytes_read;
  }
  watched.Abort();
  writer.join();
  reader.join();
  EXPECT_EQ(fell, 0);
  EXPECT_GT(before, 0U);
}

TEST(WatchedSocketTest, RecognizesThatItsDescriptorNumberWasReused) {
  std::array<int, 2> pair{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
  const int number = pair[0];
  WatchedSocket watched(number);
  EXPECT_TRUE(watched.Read());
  close(pair[0]);
  EXPECT_FALSE(watched.Read());
  std::array<int, 2> other{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, other.data()), 0);
  ASSERT_EQ(other[0], number);
  EXPECT_FALSE(watched.Read());
  watched.End();
  watched.Abort();
  EXPECT_EQ(write(other[1], "x", 1), 1);
  for (const int fd : {pair[1], other[0], other[1]}) close(fd);
}

class FrontDoorTest : public ::testing::Test {
 protected:
  FrontDoorTest()
      : door_(connections_, {.max_unfinished_total = [] { return uint64_t{1} << 40; },
                             .on_reachable = [](bool) {}}) {
    const auto address =
        door_.Open({.name = "data", .limits = [this] { return limits_; }}, "127.0.0.1:0");
    EXPECT_TRUE(address.ok()) << address.status();
    address_ = *address;
    door_.Attach(
        [this](int fd) {
          const std::lock_guard lock(mutex_);
          taken_.emplace_back(fd);
        },
        0);
  }

  const DoorCounters& counters() const { return door_.ports().front().counters; }
  size_t Taken() {
    const std::lock_guard lock(mutex_);
    return taken_.size();
  }
  // Opens a connection that sends bytes without a request until it is closed.
  void Offend(const char* source) {
    const UniqueFd client = ConnectTo(address_, source);
    const uint64_t ended = counters().ended[static_cast<size_t>(EndReason::kUnfinished)];
    std::string much(1 << 20, 'x');
    EXPECT_TRUE(Await([&] {
      (void)!send(client.get(), much.data(), much.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      const std::lock_guard lock(mutex_);
      for (const UniqueFd& fd : taken_) (void)!recv(fd.get(), much.data(), much.size(), 0);
      return counters().ended[static_cast<size_t>(EndReason::kUnfinished)] > ended;
    }));
    EXPECT_TRUE(IsEnded(client));
  }
  uint64_t Barred() const {
    return counters().refused[static_cast<size_t>(RefuseReason::kOffences)];
  }
  uint64_t RefusedForRate() const {
    return counters().refused[static_cast<size_t>(RefuseReason::kRate)];
  }
  void CloseAll() {
    const std::lock_guard lock(mutex_);
    taken_.clear();
  }

  PortLimits limits_{.max_connections = 4,
                     .max_connections_per_peer = 8,
                     .offences = {},
                     .rate = {},
                     .connection = {.max_unfinished_size = 1 << 20}};
  ConnectionTable connections_;
  std::mutex mutex_;
  std::vector<UniqueFd> taken_;
  std::string address_;
  FrontDoor door_;
};

TEST_F(FrontDoorTest, HandsOverWhatItAcceptsAndKeepsItInTheTable) {
  door_.Start();
  const UniqueFd client = ConnectTo(address_);
  ASSERT_TRUE(Await([&] { return Taken() == 1; }));
  const int fd = taken_.front().get();
  EXPECT_NE(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
  int no_delay = 0;
  socklen_t size = sizeof(no_delay);
  EXPECT_EQ(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &no_delay, &size), 0);
  EXPECT_EQ(no_delay, 1);
  EXPECT_EQ(connections_.ConnectionsOf("ipv4:127.0.0.1"), 1U);
  CloseAll();
  EXPECT_TRUE(Await([&] { return connections_.All().empty() && counters().open == 0; }));
}

TEST_F(FrontDoorTest, TheOldestSilentConnectionIsEvictedForANewOne) {
  door_.Start();
  std::vector<UniqueFd> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(ConnectTo(address_));
    ASSERT_TRUE(Await([&] { return Taken() == clients.size(); }));
  }
  std::this_thread::sleep_for(milliseconds(50));
  const UniqueFd fifth = ConnectTo(address_);
  ASSERT_TRUE(Await([&] { return Taken() == 5; }));
  EXPECT_TRUE(IsEnded(clients.front()));
  EXPECT_EQ(counters().ended[static_cast<size_t>(EndReason::kMadeRoom)], 1U);
}

TEST_F(FrontDoorTest, AConnectionThatSentSomethingIsNotEvictedWithinItsGrace) {
  door_.Start();
  std::vector<UniqueFd> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(ConnectTo(address_));
    ASSERT_EQ(write(clients.back().get(), "hello", 5), 5);
    ASSERT_TRUE(Await([&] { return Taken() == clients.size(); }));
    char text[5];
    ASSERT_TRUE(Await([&] { return read(taken_.back().get(), text, 5) == 5; }));
  }
  std::this_thread::sleep_for(milliseconds(300));
  const UniqueFd fifth = ConnectTo(address_);
  EXPECT_TRUE(IsEnded(fifth));
  EXPECT_EQ(counters().refused[static_cast<size_t>(RefuseReason::kAll)], 1U);
  EXPECT_EQ(Taken(), 4U);
}

TEST_F(FrontDoorTest, ClosedConnectionsFreeTheirPlacesAtOnce) {
  door_.Start();
  for (int i = 0; i < 100; ++i) {
    const UniqueFd client = ConnectTo(address_);
    ASSERT_EQ(write(client.get(), "hello", 5), 5);
    ASSERT_TRUE(Await([&] { return Taken() == 1; })) << i;
    CloseAll();
    std::this_thread::sleep_for(milliseconds(3));
  }
}

TEST_F(FrontDoorTest, ClosesAConnectionThatSendsMuchWithoutARequest) {
  door_.Start();
  Offend("127.0.0.1");
}

TEST_F(FrontDoorTest, APeerWithTooManyOffencesIsRefusedUntilOneExpires) {
  limits_.offences = {.most = 3, .refill = milliseconds(1'000)};
  door_.Start();
  const UniqueFd good = ConnectTo(address_, "127.0.0.2");
  ASSERT_EQ(write(good.get(), "hello", 5), 5);
  for (int i = 0; i < 3; ++i) Offend("127.0.0.2");
  EXPECT_EQ(Barred(), 0U);
  const size_t taken = Taken();
  EXPECT_TRUE(IsEnded(ConnectTo(address_, "127.0.0.2")));
  EXPECT_EQ(Barred(), 1U);
  EXPECT_EQ(Taken(), taken);
  EXPECT_FALSE(IsEndedNow(good)) << "its open connections go on";
  const UniqueFd other = ConnectTo(address_, "127.0.0.3");
  EXPECT_TRUE(Await([&] { return Taken() == taken + 1; })) << "others come in";
  EXPECT_TRUE(Await([&] {
    const UniqueFd again = ConnectTo(address_, "127.0.0.2");
    (void)Await([&] { return IsEndedNow(again) || Taken() == taken + 2; });
    return Taken() == taken + 2;
  }));
}

TEST_F(FrontDoorTest, APeerThatConnectsTooFastIsDelayedAndOthersAreNot) {
  limits_.max_connections = 100;
  limits_.rate = {.bucket = {.most = 2, .refill = milliseconds(300)},
                  .longest_wait = milliseconds(1'000)};
  door_.Start();
  std::vector<UniqueFd> clients;
  for (int i = 0; i < 5; ++i) clients.push_back(ConnectTo(address_, "127.0.0.2"));
  ASSERT_TRUE(Await([&] { return counters().waiting == 3; }));
  EXPECT_EQ(Taken(), 2U);
  const UniqueFd other = ConnectTo(address_, "127.0.0.3");
  ASSERT_TRUE(Await([&] { return Taken() == 3; }));
  EXPECT_EQ(counters().waiting, 3U) << "too slow to have seen it";
  EXPECT_TRUE(IsEnded(ConnectTo(address_, "127.0.0.2"))) << "it would wait too long";
  EXPECT_EQ(RefusedForRate(), 1U);
  EXPECT_TRUE(Await([&] { return Taken() == 6; }));
  EXPECT_EQ(counters().waiting, 0U);
  for (const UniqueFd& client : clients) EXPECT_FALSE(IsEndedNow(client));
}

TEST_F(FrontDoorTest, DelayedConnectionsTakeNoPlaceFromOthers) {
  limits_.rate = {.bucket = {.most = 1, .refill = std::chrono::hours(1)},
                  .longest_wait = std::chrono::hours(10)};
  door_.Start();
  std::vector<UniqueFd> waiting;
  for (int i = 0; i < 6; ++i) waiting.push_back(ConnectTo(address_, "127.0.0.2"));
  ASSERT_TRUE(Await([&] { return counters().waiting == 3; })) << "of four at most";
  for (size_t others = 1; others <= 3; ++others) {
    const UniqueFd other = ConnectTo(address_, ("127.0.0." + std::to_string(2 + others)).c_str());
    ASSERT_TRUE(Await([&] { return Taken() == 1 + others; })) << others;
  }
  EXPECT_EQ(RefusedForRate(), 3U);
  EXPECT_TRUE(IsEnded(waiting[3])) << "the newest that waited";
}

TEST_F(FrontDoorTest, StopClosesDelayedConnections) {
  limits_.rate = {.bucket = {.most = 1, .refill = std::chrono::hours(1)},
                  .longest_wait = std::chrono::hours(10)};
  door_.Start();
  const UniqueFd inside = ConnectTo(address_);
  const UniqueFd waiting = ConnectTo(address_);
  ASSERT_TRUE(Await([&] { return counters().waiting == 1; }));
  door_.Stop();
  EXPECT_TRUE(IsEnded(waiting));
  EXPECT_FALSE(IsEndedNow(inside));
}

TEST_F(FrontDoorTest, BeingEvictedIsNoOffence) {
  limits_.offences = {.most = 1, .refill = std::chrono::hours(1)};
  door_.Start();
  std::vector<UniqueFd> silent;  // closing counts as having sent something
  for (size_t i = 1; i <= 20; ++i) {
    silent.push_back(ConnectTo(address_));
    ASSERT_TRUE(Await([&] { return Taken() == i; })) << i;
    std::this_thread::sleep_for(milliseconds(50));
  }
  EXPECT_EQ(counters().ended[static_cast<size_t>(EndReason::kMadeRoom)], 16U);
  EXPECT_EQ(Barred(), 0U);
}

// The receiver keeps what was ended, until 64 of those are open.
class CrowdedDoorTest : public FrontDoorTest {
 protected:
  static constexpr size_t kMostClosing = 64;

  void Crowd() {
    door_.Start();
    ASSERT_TRUE(Await([this] {
      const bool crowded = Taken() == limits_.max_connections + kMostClosing;
      if (!crowded) silent_.push_back(ConnectTo(address_));
      return crowded;
    }));
    ASSERT_EQ(counters().ended[static_cast<size_t>(EndReason::kMadeRoom)], kMostClosing);
  }
  uint64_t Refused() const { return counters().refused[static_cast<size_t>(RefuseReason::kAll)]; }

  std::vector<UniqueFd> silent_;
};

TEST_F(CrowdedDoorTest, WhoComesWaitsUntilSomeAreClosed) {
  Crowd();
  const uint64_t refused = Refused();  // while none was old enough to be ended
  const UniqueFd next = ConnectTo(address_);
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_FALSE(IsEndedNow(next)) << "it was refused";
  EXPECT_EQ(Taken(), limits_.max_connections + kMostClosing);
  CloseAll();
  EXPECT_TRUE(Await([&] { return Taken() == 1; })) << "it was not let in";
  EXPECT_EQ(Refused(), refused);
}

TEST_F(CrowdedDoorTest, WhoWaitsForLongIsRefusedAndNobodyIsEndedForIt) {
  Crowd();
  EXPECT_TRUE(IsEnded(ConnectTo(address_)));
  EXPECT_EQ(counters().ended[static_cast<size_t>(EndReason::kMadeRoom)], kMostClosing);
}

// As gRPC does: the thread that hands over a connection may have to serve it while it keeps
// sending.
class CapturingReceiverTest : public FrontDoorTest {
 protected:
  CapturingReceiverTest() {
    door_.Attach(
        [this](int fd) {
          const UniqueFd owned(fd);
          ++captured_;
          std::string much(1 << 20, 'x');
          for (;;) {
            const ssize_t n = read(fd, much.data(), much.size());
            if (n == 0 || (n < 0 && errno != EAGAIN)) return;
          }
        },
        0);
  }
  // Sends until the connection is closed.
  std::thread Flood() {
    return std::thread([this] {
      const UniqueFd client = ConnectTo(address_);
      const std::string much(1 << 20, 'x');
      while (send(client.get(), much.data(), much.size(), MSG_NOSIGNAL) > 0) continue;
    });
  }

  std::atomic<int> captured_{0};
};

TEST_F(CapturingReceiverTest, AConnectionThatOccupiesTheHandoffThreadIsClosed) {
  door_.Start();
  std::thread flood = Flood();
  ASSERT_TRUE(Await([&] { return captured_ == 1; }));
  flood.join();
  EXPECT_EQ(counters().ended[static_cast<size_t>(EndReason::kUnfinished)], 1U);
  std::thread next = Flood();
  EXPECT_TRUE(Await([&] { return captured_ == 2; }));
  next.join();
}

TEST_F(CapturingReceiverTest, StopDoesNotWaitForAnEndlessConnection) {
  limits_.connection.max_unfinished_size = uint64_t{64} << 20;
  door_.Start();
  std::thread flood = Flood();
  ASSERT_TRUE(Await([&] { return captured_ == 1; }));
  door_.Stop();
  flood.join();
}

TEST(HandoffThreadTest, ClosesWhatItHasNotHandedOver) {
  std::mutex mutex;
  mutex.lock();
  std::atomic<int> handed_on{0};
  const HandoffThread::Receiver receiver = [&](int fd) {
    const UniqueFd owned(fd);
    ++handed_on;
    const std::lock_guard wait(mutex);
  };
  std::array<int, 2> pair{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
  const UniqueFd other(pair[1]);
  HandoffThread handoff;
  handoff.Start();
  handoff.HandOver(receiver, UniqueFd(dup(other.get())));
  EXPECT_TRUE(Await([&] { return handed_on == 1; }));
  handoff.HandOver(receiver, UniqueFd(pair[0]));
  handoff.Close();
  EXPECT_TRUE(IsEnded(other));
  EXPECT_FALSE(handoff.IsDone());
  mutex.unlock();
  EXPECT_TRUE(Await([&] { return handoff.IsDone(); }));
  handoff.Stop();
  EXPECT_EQ(handed_on, 1);
}

TEST_F(FrontDoorTest, StopEndsAccepting) {
  door_.Start();
  door_.Stop();
  door_.Stop();
  UniqueFd fd(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in peer{};
  peer.sin_family = AF_INET;
  peer.sin_port = htons(static_cast<uint16_t>(std::stoi(address_.substr(address_.rfind(':') + 1))));
  inet_pton(AF_INET, "127.0.0.1", &peer.sin_addr);
  EXPECT_NE(connect(fd.get(), reinterpret_cast<const sockaddr*>(&peer), sizeof(peer)), 0);
}

}  // namespace
}  // namespace lodgekv::server
