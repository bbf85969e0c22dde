// Text from outside, looked at character by character: what of it may be shown as it is.
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

// The first character of a text that is not empty; none where its first byte does not begin one in
// UTF-8 (RFC 3629).
std::optional<Character> FirstCharacter(std::string_view text);

// Whether a terminal or a viewer may take it for a command: control characters (C0, DEL, C1), the
// separators of lines and paragraphs, and what turns the direction of writing.
bool IsControl(uint32_t code);

// Whether all of it is UTF-8 without such characters.
bool IsPlain(std::string_view text);

}  // namespace lodgekv
