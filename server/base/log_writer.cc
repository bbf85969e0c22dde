#include "server/base/log_writer.h"

#include <poll.h>
#include <spdlog/async_logger.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <thread>
#include <utility>

namespace lodgekv::server {
namespace {

constexpr size_t kMaxLines = 4'096;
// Our own lines are far shorter; those of libraries may not be.
constexpr size_t kMaxLineBytes = 8 << 10;
constexpr std::string_view kCut = " (cut)";

// False: the descriptor accepts no more.
bool WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(fd, text.data(), text.size());
    if (n >= 0) {
      text.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      pollfd out{.fd = fd, .events = POLLOUT, .revents = 0};
      poll(&out, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

// Cuts to at most that many bytes, at a character boundary.
void Cut(std::string& line) {
  if (line.size() <= kMaxLineBytes) return;
  size_t end = kMaxLineBytes;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xc0U) == 0x80) --end;
  line.resize(end);
  line += kCut;
}

}  // namespace

// Runs in the writer's thread.
class LogWriter::Sink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  Sink(int fd, std::function<std::string(uint64_t)> describe)
      : fd_(fd), describe_(std::move(describe)) {}

  // Counts lines that were dropped before they came here.
  void CountOverruns(std::function<uint64_t()> overruns) { overruns_ = std::move(overruns); }

  // Lines that were written, and those that could not be.
  uint64_t handled() const { return handled_.load(std::memory_order_acquire); }
  uint64_t failed() const { return failed_.load(std::memory_order_relaxed); }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    TellOfDropped();
    const std::string_view line(message.payload.data(), message.payload.size());
    if (!WriteAll(fd_, line)) failed_.fetch_add(1, std::memory_order_relaxed);
    handled_.fetch_add(1, std::memory_order_release);
  }

  void flush_() override {}

 private:
  void TellOfDropped() {
    const uint64_t dropped = overruns_() + failed();
    if (dropped == reported_) return;
    if (WriteAll(fd_, describe_(dropped - reported_) + "\n")) reported_ = dropped;
  }

  const int fd_;
  const std::function<std::string(uint64_t)> describe_;
  std::function<uint64_t()> overruns_;
  std::atomic<uint64_t> handled_{0};
  std::atomic<uint64_t> failed_{0};
  uint64_t reported_ = 0;
};

LogWriter::LogWriter(int fd, std::function<std::string(uint64_t)> describe)
    : sink_(std::make_shared<Sink>(fd, std::move(describe))) {
  pool_ = std::make_shared<spdlog::details::thread_pool>(kMaxLines, 1);
  sink_->CountOverruns([pool = pool_.get()] { return pool->overrun_counter(); });
  logger_ = std::make_shared<spdlog::async_logger>("lodgekv", sink_, pool_,
                                                   spdlog::async_overflow_policy::overrun_oldest);
  logger_->set_level(spdlog::level::trace);
}

void LogWriter::Write(std::string line) {
  Cut(line);
  line += '\n';
  written_.fetch_add(1, std::memory_order_relaxed);
  logger_->log(spdlog::level::info, spdlog::string_view_t(line));
}

void LogWriter::Flush(std::chrono::milliseconds patience) {
  const uint64_t before = written_.load(std::memory_order_relaxed);
  const auto end = std::chrono::steady_clock::now() + patience;
  while (sink_->handled() + pool_->overrun_counter() < before &&
         std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

uint64_t LogWriter::dropped() const { return pool_->overrun_counter() + sink_->failed(); }

}  // namespace lodgekv::server
