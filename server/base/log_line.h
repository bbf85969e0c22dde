// A line of the log as text.
//
// INVARIANT  Whatever bytes message and fields hold, the result is one line of UTF-8 without
//            control characters, and a field cannot imitate another.
#pragma once

#include <spdlog/fmt/fmt.h>

#include <concepts>
#include <string>
#include <string_view>
#include <vector>

namespace lodgekv::server {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kCritical };
enum class LogFormat { kText, kJson };

std::string_view LevelName(LogLevel level);  // as the configuration writes it

// In JSON a number stays a number.
struct LogField {
  std::string_view name;
  std::string text;
  bool is_number = false;

  LogField(std::string_view field, std::string_view value) : name(field), text(value) {}
  template <class Number>
  requires std::integral<Number> || std::floating_point<Number> LogField(std::string_view field,
                                                                         Number value)
      : name(field), text(fmt::format("{}", value)), is_number(true) {}
};

// Without a line end; `time` is the text to write.
std::string FormatLogLine(LogFormat format, std::string_view time, LogLevel level,
                          std::string_view message, const std::vector<LogField>& fields);

}  // namespace lodgekv::server
