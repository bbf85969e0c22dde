// Text to values, for the configuration: sizes and durations with units, switches, and the nearest
// known name for a misspelt one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/units.h"

namespace lodgekv::server {

// true, on, yes, 1 and false, off, no, 0.
std::optional<bool> ParseSwitch(std::string_view text);

// The name with the fewest edits to `text`, if they are few enough for a typing mistake (at most 2,
// or a third of its length).
std::optional<std::string_view> NearestName(std::string_view text,
                                            std::span<const std::string_view> names);

}  // namespace lodgekv::server
