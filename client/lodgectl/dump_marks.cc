#include "client/lodgectl/dump_marks.h"

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace lodgekv::lodgectl {
namespace {

using nlohmann::json;

constexpr uint64_t kVersion = 1;
constexpr absl::string_view kTsvHead = "#lodgekv-dump ";
constexpr absl::string_view kTsvEnd = "#lodgekv-dump-end ";
constexpr absl::string_view kJsonHead = "lodgekv_dump";
constexpr absl::string_view kJsonEnd = "lodgekv_dump_end";
constexpr absl::string_view kHash = "xxh3";

absl::Status UnknownMark() {
  return absl::InvalidArgumentError(absl::StrCat(
      "a mark of a dump that this lodgectl does not know: it knows version ", kVersion));
}

// The name=value of a mark as a JSON object, in which numbers are texts.
json FieldsOfTsv(absl::string_view text) {
  json fields = json::object();
  for (const absl::string_view part : absl::StrSplit(text, ' ')) {
    const std::pair<std::string, std::string> field = absl::StrSplit(part, absl::MaxSplits('=', 1));
    fields[field.first] = field.second;
  }
  return fields;
}

std::string TextOf(const json& fields, absl::string_view name) {
  const auto found = fields.find(std::string(name));
  if (found == fields.end()) return "";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

absl::StatusOr<std::optional<DumpMark>> ToMark(const json& fields, bool is_end) {
  DumpMark mark{.is_end = is_end};
  if (is_end) {
    const std::string hash = TextOf(fields, kHash);
    if (!absl::SimpleAtoi(TextOf(fields, "records"), &mark.records) ||
        !absl::SimpleHexAtoi(hash, &mark.hash)) {
      return UnknownMark();
    }
    return mark;
  }
  const std::string encoding = TextOf(fields, "encoding");
  mark.hex = encoding == "hex";
  if (TextOf(fields, "version") != absl::StrCat(kVersion) || (!mark.hex && encoding != "text")) {
    return UnknownMark();
  }
  return mark;
}

}  // namespace

DumpSum::DumpSum() : state_(XXH3_createState()) { XXH3_64bits_reset(state_.get()); }

void DumpSum::Add(absl::string_view line) {
  ++records_;
  XXH3_64bits_update(state_.get(), line.data(), line.size());
  XXH3_64bits_update(state_.get(), "\n", 1);
}

uint64_t DumpSum::hash() const { return XXH3_64bits_digest(state_.get()); }

std::string DumpHead(RecordFormat format, Encoding encoding) {
  const absl::string_view name = encoding == Encoding::kHex ? "hex" : "text";
  if (format == RecordFormat::kTsv) {
    return absl::StrCat(kTsvHead, "version=", kVersion, " encoding=", name);
  }
  return absl::StrCat("{\"", kJsonHead, "\":{\"version\":", kVersion, ",\"encoding\":\"", name,
                      "\"}}");
}

std::string DumpEnd(RecordFormat format, const DumpSum& sum) {
  if (format == RecordFormat::kTsv) {
    return absl::StrFormat("%srecords=%d %s=%016x", kTsvEnd, sum.records(), kHash, sum.hash());
  }
  return absl::StrFormat("{\"%s\":{\"records\":%d,\"%s\":\"%016x\"}}", kJsonEnd, sum.records(),
                         kHash, sum.hash());
}

absl::StatusOr<std::optional<DumpMark>> ParseDumpMark(absl::string_view line, RecordFormat format) {
  if (format == RecordFormat::kTsv) {
    if (absl::StartsWith(line, kTsvEnd))
      return ToMark(FieldsOfTsv(line.substr(kTsvEnd.size())), true);
    if (absl::StartsWith(line, kTsvHead)) {
      return ToMark(FieldsOfTsv(line.substr(kTsvHead.size())), false);
    }
    return std::nullopt;
  }
  if (!absl::StartsWith(line, absl::StrCat("{\"", kJsonHead))) return std::nullopt;
  const json object = json::parse(line, nullptr, false);
  for (const absl::string_view name : {kJsonHead, kJsonEnd}) {
    if (object.is_object() && object.size() == 1 && object.contains(std::string(name))) {
      return ToMark(object.front(), name == kJsonEnd);
    }
  }
  return UnknownMark();
}

}  // namespace lodgekv::lodgectl
