// The distance of a misspelt name from a known one, for suggestions.
#pragma once

#include <cstddef>
#include <string_view>

namespace lodgekv {

// Levenshtein distance: insertions, deletions and substitutions that turn one into the other.
size_t EditDistance(std::string_view a, std::string_view b);

}  // namespace lodgekv
