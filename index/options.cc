#include "index/options.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "index/edit_distance.h"

namespace lodgekv {
namespace {

bool IsSwitch(const EngineOption& option) { return option.min_value == 0 && option.max_value == 1; }

std::string DescribeBounds(const EngineOption& option) {
  if (IsSwitch(option)) return "0 or 1 (also: off, on, false, true)";
  return absl::StrCat("a decimal number from ", option.min_value, " to ", option.max_value);
}

// Returns nothing unless `text` consists of the digits of a number that fits.
std::optional<uint64_t> ParseDecimal(std::string_view text) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::optional<uint64_t> ParseValue(const EngineOption& option, std::string_view text) {
  if (IsSwitch(option)) {
    const std::string word = absl::AsciiStrToLower(std::string(text));
    if (word == "true" || word == "on") return 1;
    if (word == "false" || word == "off") return 0;
  }
  return ParseDecimal(text);
}

absl::Status UnknownOption(std::span<const EngineOption> table, std::string_view name) {
  if (table.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("unknown engine option '", std::string(name),
                                                   "': this engine takes no options"));
  }
  const auto nearest = std::min_element(
      table.begin(), table.end(), [name](const EngineOption& a, const EngineOption& b) {
        return EditDistance(a.name, name) < EditDistance(b.name, name);
      });
  std::string known;
  for (const EngineOption& option : table) {
    known.append(known.empty() ? "" : ", ").append(option.name);
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown engine option '", std::string(name),
                                                 "'; did you mean '", std::string(nearest->name),
                                                 "'? Known options: ", known));
}

}  // namespace

absl::StatusOr<OptionValues> OptionValues::Parse(std::span<const EngineOption> table,
                                                 const std::map<std::string, std::string>& given) {
  OptionValues parsed;
  for (const EngineOption& option : table) {
    parsed.values_.emplace(option.name, option.default_value);
  }
  for (const auto& [name, text] : given) {
    const auto option =
        std::find_if(table.begin(), table.end(),
                     [&name = name](const EngineOption& o) { return o.name == name; });
    if (option == table.end()) return UnknownOption(table, name);
    const std::optional<uint64_t> value = ParseValue(*option, text);
    if (!value || *value < option->min_value || *value > option->max_value) {
      return absl::InvalidArgumentError(absl::StrCat("engine option '", name, "' is '", text,
                                                     "'; it must be ", DescribeBounds(*option)));
    }
    parsed.values_.insert_or_assign(name, *value);
  }
  return parsed;
}

uint64_t OptionValues::Get(std::string_view name) const {
  const auto it = values_.find(name);
  if (it == values_.end()) {
    std::fprintf(stderr, "lodgekv: engine option '%.*s' is not in the engine's table\n",
                 static_cast<int>(name.size()), name.data());
    std::abort();
  }
  return it->second;
}

}  // namespace lodgekv
