// Text to values and back, for the configuration: sizes and durations with units, switches, and the
// nearest known name for a misspelt one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lodgekv::server {

// "4096", "64KiB", "1 GiB": bytes. Units B, KiB, MiB, GiB, TiB.
std::optional<uint64_t> ParseSize(std::string_view text);

// "250ms", "10s", "5 min", "1h", "0": milliseconds. A number other than 0 needs its unit.
std::optional<uint64_t> ParseDuration(std::string_view text);

std::optional<uint64_t> ParseCount(std::string_view text);

// true, on, yes, 1 and false, off, no, 0.
std::optional<bool> ParseSwitch(std::string_view text);

// In the largest unit that leaves a whole number; the parsers read it back to the same value.
std::string FormatSize(uint64_t bytes);
std::string FormatDuration(uint64_t milliseconds);

// The name with the fewest edits to `text`, if these are few enough to be a slip (at most 2, or a
// third of its length).
std::optional<std::string_view> NearestName(std::string_view text,
                                            std::span<const std::string_view> names);

}  // namespace lodgekv::server
