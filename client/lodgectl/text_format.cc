#include "client/lodgectl/text_format.h"

#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/utf8.h"

namespace lodgekv::lodgectl {
namespace {

using nlohmann::json;

void AppendEscape(char c, std::string& text) {
  absl::StrAppendFormat(&text, "\\x%02x", static_cast<unsigned char>(c));
}

std::string EscapeText(absl::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (char c : bytes) {
    switch (c) {
      case '\\': text += "\\\\"; break;
      case '\t': text += "\\t"; break;
      case '\n': text += "\\n"; break;
      case '\r': text += "\\r"; break;
      default:
        if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) {
          AppendEscape(c, text);
        } else {
          text += c;
        }
    }
  }
  return text;
}

// Decodes the escape at the front of `text`, and removes it.
absl::StatusOr<char> TakeEscape(absl::string_view& text) {
  const char kind = text.size() < 2 ? '\0' : text[1];
  const absl::string_view digits = text.substr(0, 4);
  switch (kind) {
    case '\\': text.remove_prefix(2); return '\\';
    case 't': text.remove_prefix(2); return '\t';
    case 'n': text.remove_prefix(2); return '\n';
    case 'r': text.remove_prefix(2); return '\r';
    case 'x':
      if (absl::StatusOr<std::string> byte = FromHex(digits.substr(2));
          byte.ok() && byte->size() == 1) {
        text.remove_prefix(4);
        return (*byte)[0];
      }
      break;
    default: break;
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown escape ",
                                                 EscapeText(digits.substr(0, kind == 'x' ? 4 : 2)),
                                                 R"(: known are \\, \t, \n, \r and \xNN)"));
}

absl::StatusOr<std::string> UnescapeText(absl::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  while (!text.empty()) {
    if (text[0] == '\\') {
      absl::StatusOr<char> byte = TakeEscape(text);
      if (!byte.ok()) return byte.status();
      bytes += *byte;
    } else {
      const size_t plain = std::min(text.find('\\'), text.size());
      absl::StrAppend(&bytes, text.substr(0, plain));
      text.remove_prefix(plain);
    }
  }
  return bytes;
}

absl::StatusOr<Record> ParseTsv(absl::string_view line, Encoding encoding) {
  const size_t tab = std::min(line.find('\t'), line.size());
  const absl::string_view value = line.substr(std::min(tab + 1, line.size()));
  if (value.find('\t') != absl::string_view::npos) {
    return absl::InvalidArgumentError(
        R"(a second tab: a line is key, tab, value; a tab inside a value is written \t)");
  }
  absl::StatusOr<std::string> decoded_key = Decode(line.substr(0, tab), encoding);
  if (!decoded_key.ok()) return decoded_key.status();
  absl::StatusOr<std::string> decoded_value = Decode(value, encoding);
  if (!decoded_value.ok()) return decoded_value.status();
  return Record{*std::move(decoded_key), *std::move(decoded_value), std::nullopt};
}

// A string in JSON's quotes; none if the bytes are not UTF-8.
std::optional<std::string> JsonString(absl::string_view bytes) {
  try {
    return json(std::string(bytes)).dump();
  } catch (const json::type_error&) {
    return std::nullopt;
  }
}

std::string JsonField(absl::string_view name, absl::string_view bytes, Encoding encoding) {
  if (encoding == Encoding::kText) {
    if (std::optional<std::string> text = JsonString(bytes)) {
      return absl::StrCat("\"", name, "\":", *text);
    }
  }
  return absl::StrCat("\"", name, "_hex\":\"", ToHex(bytes), "\"");
}

absl::Status SetField(absl::string_view name, const json& value, Record& record) {
  if (name == "expire_unix_ms") {
    if (!value.is_number_integer()) {
      return absl::InvalidArgumentError("\"expire_unix_ms\" is not a whole number");
    }
    if (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) {
      return absl::InvalidArgumentError("\"expire_unix_ms\" is too large");
    }
    record.expire_time = absl::FromUnixMillis(value.get<int64_t>());
    return absl::OkStatus();
  }
  const bool is_key = name == "key" || name == "key_hex";
  if (!is_key && name != "value" && name != "value_hex") {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown field ", json(std::string(name)).dump(),
                     ": known are key, key_hex, value, value_hex and expire_unix_ms"));
  }
  if (!value.is_string()) {
    return absl::InvalidArgumentError(absl::StrCat("\"", name, "\" is not a string"));
  }
  absl::StatusOr<std::string> bytes = value.get<std::string>();
  if (absl::EndsWith(name, "_hex")) bytes = FromHex(*bytes);
  if (!bytes.ok()) return bytes.status();
  (is_key ? record.key : record.value) = *std::move(bytes);
  return absl::OkStatus();
}

absl::StatusOr<Record> ParseJson(absl::string_view line) {
  json object;
  try {
    object = json::parse(line);
  } catch (const json::parse_error& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("not JSON, from byte ", error.byte, " of the line on"));
  } catch (const json::out_of_range&) {
    return absl::InvalidArgumentError("not JSON: a number is too large");
  }
  if (!object.is_object()) {
    return absl::InvalidArgumentError("not a JSON object with \"key\" and \"value\"");
  }
  for (absl::string_view name : {"key", "value"}) {
    if (object.contains(name) && object.contains(absl::StrCat(name, "_hex"))) {
      return absl::InvalidArgumentError(absl::StrCat("both \"", name, "\" and \"", name, "_hex\""));
    }
  }
  Record record;
  for (const auto& [name, value] : object.items()) {
    if (absl::Status status = SetField(name, value, record); !status.ok()) return status;
  }
  return record;
}

}  // namespace

std::string ToHex(absl::string_view bytes) { return absl::BytesToHexString(bytes); }

absl::StatusOr<std::string> FromHex(absl::string_view text) {
  for (char c : text) {
    if (absl::ascii_isxdigit(static_cast<unsigned char>(c))) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("'", EscapeText({&c, 1}), "' is not a hexadecimal digit"));
  }
  if (text.size() % 2 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(text.size(), " hexadecimal digits: a byte takes two"));
  }
  return absl::HexStringToBytes(text);
}

std::string Encode(absl::string_view bytes, Encoding encoding) {
  return encoding == Encoding::kHex ? ToHex(bytes) : EscapeText(bytes);
}

std::string EscapeEach(absl::string_view bytes) {
  std::string text;
  for (const char c : bytes) AppendEscape(c, text);
  return text;
}

absl::string_view ByteOrderMark(absl::string_view text) {
  for (const absl::string_view mark : {"\xef\xbb\xbf", "\xff\xfe", "\xfe\xff"}) {
    if (absl::StartsWith(text, mark)) return text.substr(0, mark.size());
  }
  return "";
}

std::string EncodeKey(absl::string_view bytes, Encoding encoding) {
  if (encoding == Encoding::kHex) return ToHex(bytes);
  const absl::string_view first =
      absl::StartsWith(bytes, "#") ? bytes.substr(0, 1) : ByteOrderMark(bytes);
  return absl::StrCat(EscapeEach(first), EscapeText(bytes.substr(first.size())));
}

std::string EscapeForTerminal(absl::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  while (!text.empty()) {
    const std::optional<Character> character = FirstCharacter({text.data(), text.size()});
    const size_t bytes = character ? character->bytes : 1;
    const bool plain = character && (!IsControl(character->code) || character->code == '\n' ||
                                     character->code == '\t');
    for (const char c : text.substr(0, bytes)) {
      if (plain) escaped += c;
      if (!plain) AppendEscape(c, escaped);
    }
    text.remove_prefix(bytes);
  }
  return escaped;
}

absl::StatusOr<std::string> Decode(absl::string_view text, Encoding encoding) {
  return encoding == Encoding::kHex ? FromHex(text) : UnescapeText(text);
}

RecordFormat FormatOfFile(absl::string_view path) {
  for (absl::string_view ending : {".json", ".jsonl", ".ndjson"}) {
    if (absl::EndsWithIgnoreCase(path, ending)) return RecordFormat::kJsonLines;
  }
  return RecordFormat::kTsv;
}

absl::StatusOr<Record> ParseRecord(absl::string_view line, RecordFormat format, Encoding encoding) {
  absl::StatusOr<Record> record =
      format == RecordFormat::kTsv ? ParseTsv(line, encoding) : ParseJson(line);
  if (record.ok() && record->key.empty()) return absl::InvalidArgumentError("the key is empty");
  return record;
}

std::string FormatRecord(const Record& record, RecordFormat format, Encoding encoding) {
  if (format == RecordFormat::kTsv) {
    return absl::StrCat(EncodeKey(record.key, encoding), "\t", Encode(record.value, encoding));
  }
  std::string line = absl::StrCat("{", JsonField("key", record.key, encoding), ",",
                                  JsonField("value", record.value, encoding));
  if (record.expire_time) {
    absl::StrAppend(&line, ",\"expire_unix_ms\":", absl::ToUnixMillis(*record.expire_time));
  }
  return line + "}";
}

}  // namespace lodgekv::lodgectl
