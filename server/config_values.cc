#include "server/config_values.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <numeric>
#include <vector>

#include "server/limits.h"

namespace lodgekv::server {
namespace {

struct Unit {
  std::string_view name;
  uint64_t factor;
};

// Largest first: formatting takes the first that divides.
constexpr std::array<Unit, 5> kSizeUnits{
    {{"TiB", kTiB}, {"GiB", kGiB}, {"MiB", kMiB}, {"KiB", kKiB}, {"B", 1}}};
constexpr std::array<Unit, 4> kDurationUnits{
    {{"h", 3'600'000}, {"min", 60'000}, {"s", 1'000}, {"ms", 1}}};

std::string_view Trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) {
    text.remove_prefix(1);
  }
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) {
    text.remove_suffix(1);
  }
  return text;
}

// The number at the front of `text`, which then holds the unit behind it.
std::optional<uint64_t> TakeNumber(std::string_view& text) {
  text = Trim(text);
  uint64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  text = Trim(text.substr(static_cast<size_t>(stop - text.data())));
  return value;
}

std::optional<uint64_t> ParseWithUnit(std::string_view text, std::span<const Unit> units,
                                      bool unit_needed) {
  const std::optional<uint64_t> number = TakeNumber(text);
  if (!number) return std::nullopt;
  if (text.empty() && (!unit_needed || *number == 0)) return number;
  for (const Unit& unit : units) {
    if (text != unit.name) continue;
    if (*number > UINT64_MAX / unit.factor) return std::nullopt;
    return *number * unit.factor;
  }
  return std::nullopt;
}

std::string FormatWithUnit(uint64_t value, std::span<const Unit> units) {
  for (const Unit& unit : units) {
    if (value != 0 && value % unit.factor == 0) {
      return fmt::format("{}{}", value / unit.factor, unit.name);
    }
  }
  return "0";
}

// Levenshtein distance: insertions, deletions and substitutions that turn one into the other.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

}  // namespace

std::optional<uint64_t> ParseSize(std::string_view text) {
  return ParseWithUnit(text, kSizeUnits, false);
}

std::optional<uint64_t> ParseDuration(std::string_view text) {
  return ParseWithUnit(text, kDurationUnits, true);
}

std::optional<uint64_t> ParseCount(std::string_view text) {
  const std::optional<uint64_t> number = TakeNumber(text);
  return text.empty() ? number : std::nullopt;
}

std::optional<bool> ParseSwitch(std::string_view text) {
  text = Trim(text);
  for (const std::string_view word : {"true", "on", "yes", "1"}) {
    if (text == word) return true;
  }
  for (const std::string_view word : {"false", "off", "no", "0"}) {
    if (text == word) return false;
  }
  return std::nullopt;
}

std::string FormatSize(uint64_t bytes) { return FormatWithUnit(bytes, kSizeUnits); }

std::string FormatDuration(uint64_t milliseconds) {
  return FormatWithUnit(milliseconds, kDurationUnits);
}

std::optional<std::string_view> NearestName(std::string_view text,
                                            std::span<const std::string_view> names) {
  std::optional<std::string_view> nearest;
  size_t fewest = std::max<size_t>(2, text.size() / 3) + 1;
  for (const std::string_view name : names) {
    const size_t edits = EditDistance(text, name);
    if (edits >= fewest) continue;
    fewest = edits;
    nearest = name;
  }
  return nearest;
}

}  // namespace lodgekv::server
