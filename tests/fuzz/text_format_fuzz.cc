// lodgectl's text: what load parses, what scan and dump print.
#include <nlohmann/json.hpp>

#include "client/lodgectl/text_format.h"
#include "tests/fuzz/fuzz_target.h"

namespace lodgekv::lodgectl {
namespace {

// Also in errors: terminal control characters are escaped where they are printed.
bool IsOneLine(absl::string_view text) {
  return !text.empty() && text.find('\n') == absl::string_view::npos;
}

// The planted bug: TSV whose formatter does not escape a tab inside a value.
std::string Format(const Record& record, RecordFormat format, Encoding encoding) {
  std::string line = FormatRecord(record, format, encoding);
  if (fuzz::BugIsPlanted() && format == RecordFormat::kTsv) {
    const size_t escape = line.find("\\t");
    if (escape != std::string::npos) line.replace(escape, 2, "\t");
  }
  return line;
}

void CheckBytes(absl::string_view bytes, Encoding encoding) {
  const std::string text = Encode(bytes, encoding);
  FUZZ_REQUIRE(text.find_first_of("\t\n\r") == std::string::npos, text);
  const absl::StatusOr<std::string> again = Decode(text, encoding);
  FUZZ_REQUIRE(again.ok() && *again == bytes, text);
  const absl::StatusOr<std::string> decoded = Decode(bytes, encoding);
  if (!decoded.ok()) FUZZ_REQUIRE(IsOneLine(decoded.status().message()), text);
}

void CheckSame(const Record& record, RecordFormat format, Encoding encoding) {
  const std::string line = Format(record, format, encoding);
  FUZZ_REQUIRE(IsOneLine(line), line);
  const absl::StatusOr<Record> again = ParseRecord(line, format, encoding);
  FUZZ_REQUIRE(again.ok(), line);
  FUZZ_REQUIRE(again->key == record.key && again->value == record.value, line);
  if (format == RecordFormat::kJsonLines) {
    FUZZ_REQUIRE(again->expire_time == record.expire_time, line);
  }
}

// The time in a line of JSON is the one that is stored.
void CheckExpiry(absl::string_view line, const Record& record) {
  const auto object = nlohmann::json::parse(line.begin(), line.end());
  if (!object.contains("expire_unix_ms")) {
    FUZZ_REQUIRE(!record.expire_time, line);
    return;
  }
  const nlohmann::json& number = object["expire_unix_ms"];
  FUZZ_REQUIRE(record.expire_time.has_value(), line);
  FUZZ_REQUIRE(std::to_string(absl::ToUnixMillis(*record.expire_time)) == number.dump(), line);
}

void CheckLine(absl::string_view line, RecordFormat format, Encoding encoding) {
  const absl::StatusOr<Record> record = ParseRecord(line, format, encoding);
  if (!record.ok()) {
    FUZZ_REQUIRE(record.status().code() == absl::StatusCode::kInvalidArgument, line);
    FUZZ_REQUIRE(IsOneLine(record.status().message()), record.status().message());
    return;
  }
  FUZZ_REQUIRE(!record->key.empty(), line);
  if (format == RecordFormat::kJsonLines) CheckExpiry(line, *record);
  // Also in every other form: dump in one, load in another.
  for (const RecordFormat other : {RecordFormat::kTsv, RecordFormat::kJsonLines}) {
    for (const Encoding coding : {Encoding::kText, Encoding::kHex}) {
      CheckSame(*record, other, coding);
    }
  }
  if (format == RecordFormat::kTsv) {
    FUZZ_REQUIRE(record->key.size() + record->value.size() <= line.size(), line);
  }
}

}  // namespace
}  // namespace lodgekv::lodgectl

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using lodgekv::lodgectl::Encoding;
  using lodgekv::lodgectl::RecordFormat;
  lodgekv::fuzz::InputReader input(data, size);
  const uint8_t kind = input.Byte();
  const auto format = (kind & 1) == 0 ? RecordFormat::kTsv : RecordFormat::kJsonLines;
  const auto encoding = (kind & 2) == 0 ? Encoding::kText : Encoding::kHex;
  const std::string_view rest = input.Rest();
  const absl::string_view text(rest.data(), rest.size());
  lodgekv::lodgectl::CheckBytes(text, encoding);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lodgekv::lodgectl::CheckLine(text.substr(begin, end - begin), format, encoding);
    begin = end + 1;
  }
  return 0;
}
