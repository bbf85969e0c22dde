// Checks which characters of an external text may be shown unchanged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace lodgekv {

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;
};

// The first character of a nonempty text; none if its first byte does not begin one in UTF-8 (RFC
// 3629).
std::optional<Character> FirstCharacter(std::string_view text);

// Whether a terminal or a viewer may interpret it as a command: control characters (C0, DEL, C1),
// line and paragraph separators, and changes of the writing direction.
bool IsControl(uint32_t code);

// Whether all of it is UTF-8 without such characters.
bool IsPlain(std::string_view text);

}  // namespace lodgekv
