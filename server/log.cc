#include "server/log.h"

#include <grpc/support/log.h>
#include <spdlog/fmt/fmt.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <atomic>
#include <chrono>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>

#include "server/handshake_log.h"

namespace lodgekv::server {
namespace {

std::atomic<LogFormat> g_format{LogFormat::kText};

constexpr std::array<std::string_view, 5> kLevelNames{"debug", "info", "warning", "error",
                                                      "critical"};

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarning: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
    case LogLevel::kCritical: return spdlog::level::critical;
  }
  return spdlog::level::critical;
}

spdlog::logger& Logger() {
  static const std::shared_ptr<spdlog::logger> kLogger = [] {
    auto made = std::make_shared<spdlog::logger>("lodgekv",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%v");
    made->flush_on(spdlog::level::info);
    return made;
  }();
  return *kLogger;
}

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

bool NeedsQuotes(std::string_view text) {
  return text.empty() || text.find_first_of(" \"=\\\n\t") != std::string_view::npos;
}

// A JSON string: quotes, escapes, and bytes that are not UTF-8 replaced.
std::string Quote(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void LogFromGrpc(gpr_log_func_args* args) {
  if (NoteHandshakeFailure(args->message)) return;
  Log(LogLevel::kDebug, args->message, {{"source", "grpc"}});
}

}  // namespace

std::string FormatLogLine(LogFormat format, std::string_view time, LogLevel level,
                          std::string_view message, const std::vector<LogField>& fields) {
  const std::string_view name = kLevelNames[static_cast<size_t>(level)];
  if (format == LogFormat::kJson) {
    std::string line =
        fmt::format(R"({{"time":"{}","level":"{}","message":{})", time, name, Quote(message));
    for (const LogField& field : fields) {
      line += fmt::format(R"(,"{}":{})", field.name, Quote(field.text));
    }
    return line + "}";
  }
  std::string line = fmt::format("{} {:<8} {}", time, name, message);
  for (const LogField& field : fields) {
    line +=
        fmt::format(" {}={}", field.name, NeedsQuotes(field.text) ? Quote(field.text) : field.text);
  }
  return line;
}

void SetUpLog(std::string_view format, std::string_view least_level) {
  g_format = format == "json" ? LogFormat::kJson : LogFormat::kText;
  for (size_t i = 0; i < kLevelNames.size(); ++i) {
    if (kLevelNames[i] == least_level) Logger().set_level(ToSpdlog(static_cast<LogLevel>(i)));
  }
}

bool Logs(LogLevel level) { return Logger().should_log(ToSpdlog(level)); }

void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  if (!Logs(level)) return;
  Logger().log(ToSpdlog(level), FormatLogLine(g_format, Now(), level, message, fields));
}

void FlushLog() { Logger().flush(); }

void AdoptGrpcLog() { gpr_set_log_function(&LogFromGrpc); }

}  // namespace lodgekv::server
