// Sizes and durations as users write them, the same in both programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lodgekv {

// "4096", "64KiB", "1 GiB", "1.5MiB": bytes. Units B, KiB, MiB, GiB, TiB.
std::optional<uint64_t> ParseSize(std::string_view text);

// "250ms", "10s", "5 min", "1h", "1m30s", "1.5s", "0": whole milliseconds. Units ms, s, m or min,
// h, each at most once and in descending order. A number other than 0 needs a unit.
std::optional<uint64_t> ParseDuration(std::string_view text);

std::optional<uint64_t> ParseCount(std::string_view text);

// In the largest unit that gives a whole number; the parsers read it back to the same value.
std::string FormatSize(uint64_t bytes);
std::string FormatDuration(uint64_t milliseconds);

}  // namespace lodgekv
