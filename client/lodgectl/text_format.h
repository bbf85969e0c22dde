// Keys and values as text, and records (a key, its value) as lines.
//
// INVARIANTS
// - Decode(Encode(bytes)) == bytes, and ParseRecord(FormatRecord(record)) == record, for all bytes.
//   An encoded text holds no tab and no newline.
// - Plain text keeps its look: only a backslash (\\), a tab (\t), a newline (\n), a carriage return
//   (\r) and the other control bytes (\xNN, two hexadecimal digits) are escaped. Bytes from 0x80
//   on, such as those of UTF-8, stand for themselves.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace lodgekv::lodgectl {

enum class Encoding {
  kText,  // with the escapes above
  kHex,   // two hexadecimal digits a byte
};

std::string Encode(absl::string_view bytes, Encoding encoding);

// Every byte as \xNN.
std::string EscapeEach(absl::string_view bytes);

// The byte order mark of UTF-8 or UTF-16 that `text` begins with; empty: none.
absl::string_view ByteOrderMark(absl::string_view text);

// For the key at the begin of a line: what no record begins with is written with \xNN, a "#" and a
// byte order mark.
std::string EncodeKey(absl::string_view bytes, Encoding encoding);

// Escapes what a terminal may interpret as a command as \xNN, a byte at a time: control characters
// except newline and tab, C1 and similar in UTF-8 too, and bytes that are not UTF-8.
std::string EscapeForTerminal(absl::string_view text);

// InvalidArgument names the error. Bytes that need no escape are unchanged, also a carriage return
// and other control bytes.
absl::StatusOr<std::string> Decode(absl::string_view text, Encoding encoding);

std::string ToHex(absl::string_view bytes);
absl::StatusOr<std::string> FromHex(absl::string_view text);

struct Record {
  std::string key;
  std::string value;
  // When the value expires. Only JSON lines have it.
  std::optional<absl::Time> expire_time;
};

enum class RecordFormat {
  // Key, tab, value, each encoded. A line without a tab has an empty value.
  kTsv,
  // One object per line: "key" and "value" as strings, or "key_hex" and "value_hex" in hexadecimal
  // (what is not UTF-8, and everything with Encoding::kHex); "expire_unix_ms" if the value expires.
  // A missing value is empty.
  kJsonLines,
};

// By the suffix of the name: .json, .jsonl and .ndjson are JSON lines, all else is TSV.
RecordFormat FormatOfFile(absl::string_view path);

// The line has no newline at its end. An empty key is an error.
absl::StatusOr<Record> ParseRecord(absl::string_view line, RecordFormat format, Encoding encoding);

std::string FormatRecord(const Record& record, RecordFormat format, Encoding encoding);

}  // namespace lodgekv::lodgectl
