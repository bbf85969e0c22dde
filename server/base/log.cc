#include "server/base/log.h"

#include <poll.h>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <ctime>
#include <string>
#include <system_error>
#include <utility>

#include "server/base/log_writer.h"

namespace lodgekv::server {
namespace {

constexpr std::chrono::seconds kFlushPatience{1};
constexpr int kDirectPatienceMs = 100;

std::atomic<LogFormat> g_format{LogFormat::kText};
std::atomic<LogLevel> g_least_level{LogLevel::kInfo};

std::string Now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  const std::time_t seconds = ms / 1000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  std::array<char, 32> text{};
  const size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &utc);
  return fmt::format("{}.{:03}Z", std::string_view(text.data(), length), ms % 1000);
}

std::string DescribeDropped(uint64_t dropped) {
  return FormatLogLine(g_format, Now(), LogLevel::kWarning,
                       "log lines were dropped, nobody read them",
                       {{"not_logged_before", dropped}});
}

LogWriter* MakeWriter() {
  try {
    return new LogWriter(STDERR_FILENO, DescribeDropped);
  } catch (const std::system_error&) {
    return nullptr;  // no thread can be started
  }
}

// Never destroyed: its thread may be waiting for the reader of the log. Null: there is none.
LogWriter* Writer() {
  static LogWriter* const kWriter = MakeWriter();
  return kWriter;
}

void WriteDirectly(std::string line) {
  line += '\n';
  pollfd out{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  if (poll(&out, 1, kDirectPatienceMs) == 1) {
    (void)!write(STDERR_FILENO, line.data(), line.size());
  }
}

}  // namespace

void SetUpLog(std::string_view format, std::string_view least_level) {
  g_format = format == "json" ? LogFormat::kJson : LogFormat::kText;
  for (const LogLevel level : {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning,
                               LogLevel::kError, LogLevel::kCritical}) {
    if (LevelName(level) == least_level) g_least_level = level;
  }
}

bool Logs(LogLevel level) { return level >= g_least_level.load(std::memory_order_relaxed); }

void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  if (!Logs(level)) return;
  std::string line = FormatLogLine(g_format, Now(), level, message, fields);
  if (LogWriter* writer = Writer()) {
    writer->Write(std::move(line));
  } else {
    WriteDirectly(std::move(line));
  }
}

void FlushLog() {
  if (LogWriter* writer = Writer()) writer->Flush(kFlushPatience);
}

uint64_t LogLinesDropped() {
  const LogWriter* writer = Writer();
  return writer != nullptr ? writer->dropped() : 0;
}

}  // namespace lodgekv::server
