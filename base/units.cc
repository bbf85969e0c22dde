#include "base/units.h"

#include <array>
#include <charconv>
#include <span>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace lodgekv {
namespace {

struct Unit {
  std::string_view name;
  uint64_t factor;
};

// Largest first: formatting uses the first that divides.
constexpr std::array<Unit, 5> kSizeUnits{{{"TiB", uint64_t{1} << 40},
                                          {"GiB", uint64_t{1} << 30},
                                          {"MiB", uint64_t{1} << 20},
                                          {"KiB", uint64_t{1} << 10},
                                          {"B", 1}}};
constexpr std::array<Unit, 5> kDurationUnits{
    {{"h", 3'600'000}, {"min", 60'000}, {"m", 60'000}, {"s", 1'000}, {"ms", 1}}};

void TrimLeft(std::string_view& text) {
  while (!text.empty() && absl::ascii_isspace(static_cast<unsigned char>(text.front()))) {
    text.remove_prefix(1);
  }
}

std::string_view Trim(std::string_view text) {
  TrimLeft(text);
  while (!text.empty() && absl::ascii_isspace(static_cast<unsigned char>(text.back()))) {
    text.remove_suffix(1);
  }
  return text;
}

// Removes the digits at the front of `text` and returns them.
std::optional<uint64_t> TakeDigits(std::string_view& text) {
  uint64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(stop - text.data()));
  return value;
}

// A number with or without a fraction: `value` / `scale`, scale a power of ten.
struct Decimal {
  uint64_t value = 0;
  uint64_t scale = 1;
};

std::optional<Decimal> TakeDecimal(std::string_view& text) {
  const std::optional<uint64_t> whole = TakeDigits(text);
  if (!whole) return std::nullopt;
  Decimal decimal{.value = *whole};
  if (text.empty() || text.front() != '.') return decimal;
  text.remove_prefix(1);
  const std::string_view behind_point = text;
  const std::optional<uint64_t> fraction = TakeDigits(text);
  const size_t digits = behind_point.size() - text.size();
  if (!fraction || digits > 9) return std::nullopt;
  for (size_t i = 0; i < digits; ++i) decimal.scale *= 10;
  if (decimal.value > (UINT64_MAX - *fraction) / decimal.scale) return std::nullopt;
  decimal.value = decimal.value * decimal.scale + *fraction;
  return decimal;
}

// Removes the unit at the front of `text`; returns its index, or their number if there is none.
size_t TakeUnit(std::string_view& text, std::span<const Unit> units) {
  size_t letters = 0;
  while (letters < text.size() && absl::ascii_isalpha(static_cast<unsigned char>(text[letters]))) {
    ++letters;
  }
  for (size_t i = 0; i < units.size(); ++i) {
    if (text.substr(0, letters) != units[i].name) continue;
    text.remove_prefix(letters);
    return i;
  }
  return units.size();
}

std::optional<uint64_t> Multiply(const Decimal& decimal, uint64_t factor) {
  if (decimal.value > UINT64_MAX / factor) return std::nullopt;
  const uint64_t product = decimal.value * factor;
  if (product % decimal.scale != 0) return std::nullopt;
  return product / decimal.scale;
}

// Parts of number and unit, in descending units.
std::optional<uint64_t> ParseParts(std::string_view text, std::span<const Unit> units) {
  uint64_t sum = 0;
  while (!text.empty()) {
    const std::optional<Decimal> decimal = TakeDecimal(text);
    if (!decimal) return std::nullopt;
    TrimLeft(text);
    const size_t unit = TakeUnit(text, units);
    if (unit == units.size()) return std::nullopt;
    const std::optional<uint64_t> part = Multiply(*decimal, units[unit].factor);
    if (!part || *part > UINT64_MAX - sum) return std::nullopt;
    sum += *part;
    TrimLeft(text);
    const uint64_t factor = units[unit].factor;
    while (!units.empty() && units.front().factor >= factor) units = units.subspan(1);
  }
  return sum;
}

std::string FormatWithUnit(uint64_t value, std::span<const Unit> units) {
  for (const Unit& unit : units) {
    if (value != 0 && value % unit.factor == 0)
      return absl::StrCat(value / unit.factor, std::string(unit.name));
  }
  return "0";
}

}  // namespace

std::optional<uint64_t> ParseSize(std::string_view text) {
  text = Trim(text);
  if (const std::optional<uint64_t> bytes = ParseCount(text)) return bytes;
  // One part only: nobody writes 1GiB512MiB.
  const size_t letter = text.find_first_not_of("0123456789. \t");
  if (letter == std::string_view::npos) return std::nullopt;
  if (text.find_first_of("0123456789", letter) != std::string_view::npos) return std::nullopt;
  return ParseParts(text, kSizeUnits);
}

std::optional<uint64_t> ParseDuration(std::string_view text) {
  text = Trim(text);
  if (text.empty()) return std::nullopt;
  if (ParseCount(text) == 0) return 0;
  return ParseParts(text, kDurationUnits);
}

std::optional<uint64_t> ParseCount(std::string_view text) {
  text = Trim(text);
  const std::optional<uint64_t> number = TakeDigits(text);
  return text.empty() ? number : std::nullopt;
}

std::string FormatSize(uint64_t bytes) { return FormatWithUnit(bytes, kSizeUnits); }

std::string FormatDuration(uint64_t milliseconds) {
  return FormatWithUnit(milliseconds, kDurationUnits);
}

}  // namespace lodgekv
