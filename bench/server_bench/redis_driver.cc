#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <deque>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "bench/server_bench/loopback.h"
#include "bench/server_bench/put_driver.h"

namespace lodgekv::server_bench {
namespace {

constexpr size_t kReadBytes = 65'536;
constexpr std::string_view kLineEnd = "\r\n";
constexpr std::string_view kOk = "+OK";

// A blocking socket, with kAnswerTimeout.
class Connection {
 public:
  Connection() = default;
  ~Connection() {
    if (fd_ >= 0) close(fd_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  absl::Status Open(const LocalAddress& address) {
    const auto fd = ConnectTo(address);
    if (!fd.ok()) return fd.status();
    fd_ = *fd;
    return absl::OkStatus();
  }

  void AddSet(std::string_view key, std::string_view value, uint64_t now_ns) {
    out_ += "*3\r\n$3\r\nSET\r\n";
    AddBulk(key);
    AddBulk(value);
    sent_ns_.push_back(now_ns);
  }

  absl::Status Send() {
    for (std::string_view rest = out_; !rest.empty();) {
      const ssize_t sent = send(fd_, rest.data(), rest.size(), MSG_NOSIGNAL);
      if (sent <= 0) return absl::ErrnoToStatus(errno, "cannot send");
      rest.remove_prefix(static_cast<size_t>(sent));
    }
    out_.clear();
    return absl::OkStatus();
  }

  // Receives available data; returns how many puts it answers, whose times Pop then returns.
  absl::StatusOr<size_t> Receive() {
    std::array<char, kReadBytes> buffer;
    const ssize_t got = recv(fd_, buffer.data(), buffer.size(), 0);
    if (got == 0) return absl::UnavailableError("the server closed the connection");
    if (got < 0) return absl::ErrnoToStatus(errno, "cannot receive");
    in_.append(buffer.data(), static_cast<size_t>(got));
    size_t answers = 0;
    size_t begin = 0;
    for (size_t end = 0; (end = in_.find(kLineEnd, begin)) != std::string::npos;) {
      const std::string_view line = std::string_view(in_).substr(begin, end - begin);
      if (line != kOk) return absl::UnavailableError("a put failed: " + std::string(line));
      begin = end + kLineEnd.size();
      ++answers;
    }
    in_.erase(0, begin);
    return answers;
  }

  uint64_t Pop() {
    const uint64_t sent = sent_ns_.front();
    sent_ns_.pop_front();
    return sent;
  }

  int fd() const { return fd_; }

 private:
  void AddBulk(std::string_view text) {
    absl::StrAppend(&out_, "$", text.size(), "\r\n");
    out_.append(text).append(kLineEnd);
  }

  int fd_ = -1;
  std::string in_;
  std::string out_;
  std::deque<uint64_t> sent_ns_;  // of the puts in flight
};

class RedisDriver final : public PutDriver {
 public:
  RedisDriver(std::string server, const PutShare& share)
      : server_(std::move(server)), share_(share), connections_(share.connections) {}

  absl::Status Connect() override {
    const absl::StatusOr<LocalAddress> address = ReadLocalAddress(server_);
    if (!address.ok()) return address.status();
    for (Connection& connection : connections_) {
      if (absl::Status status = connection.Open(*address); !status.ok()) return status;
      polled_.push_back({.fd = connection.fd(), .events = POLLIN, .revents = 0});
    }
    return absl::OkStatus();
  }

  absl::Status Run(PutSource& source, PutRecorder& recorder) override {
    for (unsigned i = 0; i < share_.in_flight; ++i) {
      Add(connections_[i % connections_.size()], source, recorder, NowNs());
    }
    for (Connection& connection : connections_) {
      if (absl::Status status = connection.Send(); !status.ok()) return status;
    }
    const auto timeout = std::chrono::milliseconds(kAnswerTimeout).count();
    while (in_flight_ > 0) {
      const int ready = poll(polled_.data(), polled_.size(), static_cast<int>(timeout));
      if (ready < 0 && errno != EINTR) return absl::ErrnoToStatus(errno, "poll");
      if (ready == 0) return absl::DeadlineExceededError("no answer");
      for (size_t i = 0; i < polled_.size(); ++i) {
        if (polled_[i].revents == 0) continue;
        if (absl::Status status = Answer(connections_[i], source, recorder); !status.ok()) {
          return status;
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  void Add(Connection& connection, PutSource& source, PutRecorder& recorder, uint64_t now_ns) {
    if (!recorder.TakePut(now_ns)) return;
    connection.AddSet(source.key(), source.value(), now_ns);
    source.Next();
    ++in_flight_;
  }

  absl::Status Answer(Connection& connection, PutSource& source, PutRecorder& recorder) {
    const absl::StatusOr<size_t> answers = connection.Receive();
    if (!answers.ok()) return answers.status();
    const uint64_t now = NowNs();
    for (size_t i = 0; i < *answers; ++i) {
      recorder.Answered(connection.Pop(), now);
      --in_flight_;
      Add(connection, source, recorder, now);
    }
    return connection.Send();
  }

  const std::string server_;
  const PutShare share_;
  std::vector<Connection> connections_;
  std::vector<pollfd> polled_;
  size_t in_flight_ = 0;
};

}  // namespace

std::unique_ptr<PutDriver> MakeRedisDriver(const PutPlan& plan, const PutShare& share) {
  return std::make_unique<RedisDriver>(plan.server, share);
}

}  // namespace lodgekv::server_bench
