#include "server/base/log_line.h"

#include <array>
#include <optional>

#include "base/utf8.h"

namespace lodgekv::server {
namespace {

constexpr std::array<std::string_view, 5> kLevelNames{"debug", "info", "warning", "error",
                                                      "critical"};
constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

std::string Escape(uint32_t code) {
  switch (code) {
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    default: return fmt::format("\\u{:04x}", code);  // none that IsControl accepts has more digits
  }
}

// A JSON string: quotes, escapes, and bytes that are not UTF-8 replaced.
std::string Quote(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const std::optional<Character> character = FirstCharacter(text);
    const size_t bytes = character ? character->bytes : 1;
    if (!character) {
      quoted += kReplacement;
    } else if (IsControl(character->code)) {
      quoted += Escape(character->code);
    } else {
      if (character->code == '"' || character->code == '\\') quoted += '\\';
      quoted += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
  return quoted + "\"";
}

std::string FieldText(std::string_view text) {
  const bool bare =
      !text.empty() && IsPlain(text) && text.find_first_of(" \"=\\") == std::string_view::npos;
  return bare ? std::string(text) : Quote(text);
}

}  // namespace

std::string_view LevelName(LogLevel level) { return kLevelNames[static_cast<size_t>(level)]; }

std::string FormatLogLine(LogFormat format, std::string_view time, LogLevel level,
                          std::string_view message, const std::vector<LogField>& fields) {
  if (format == LogFormat::kJson) {
    std::string line = fmt::format(R"({{"time":"{}","level":"{}","message":{})", time,
                                   LevelName(level), Quote(message));
    for (const LogField& field : fields) {
      line +=
          fmt::format(R"(,"{}":{})", field.name, field.is_number ? field.text : Quote(field.text));
    }
    return line + "}";
  }
  std::string line = fmt::format("{} {:<8} {}", time, LevelName(level),
                                 IsPlain(message) ? std::string(message) : Quote(message));
  for (const LogField& field : fields) {
    line += fmt::format(" {}={}", field.name, FieldText(field.text));
  }
  return line;
}

}  // namespace lodgekv::server
