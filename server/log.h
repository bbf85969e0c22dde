// The daemon's log: one line per event on stderr, for people (text) or for machines (one JSON
// object), with named fields. Keys and values of users never enter it, their sizes may.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace lodgekv::server {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kCritical };
enum class LogFormat { kText, kJson };

struct LogField {
  std::string_view name;
  std::string text;

  LogField(std::string_view field, std::string_view value) : name(field), text(value) {}
  LogField(std::string_view field, uint64_t value) : name(field), text(std::to_string(value)) {}
};

// Names as in the configuration: log_format, log_level. Until then text at level info.
void SetUpLog(std::string_view format, std::string_view least_level);

// Whether a message of this level is written.
bool Logs(LogLevel level);

void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {});

// One line without its end, as Log writes it; `time` as it is to appear.
std::string FormatLogLine(LogFormat format, std::string_view time, LogLevel level,
                          std::string_view message, const std::vector<LogField>& fields);

// Everything logged so far is written out. Call before a hard exit.
void FlushLog();

// Lines of the gRPC library go to our log: its errors as debug messages, since we report, in our
// own words, what matters of them; a failed TLS handshake we know from there alone.
void AdoptGrpcLog();

}  // namespace lodgekv::server
