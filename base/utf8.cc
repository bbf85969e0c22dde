#include "base/utf8.h"

namespace lodgekv {
namespace {

// The number of bytes of a character with this first byte; 0: not a first byte.
size_t LengthBy(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first < 0xe0) return 2;
  if (first >= 0xe0 && first < 0xf0) return 3;
  return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

// An overlong encoding, half of a surrogate pair, or beyond Unicode.
bool IsForbidden(uint32_t code, size_t bytes) {
  if (bytes == 3) return code < 0x800 || (code >= 0xd800 && code < 0xe000);
  return bytes == 4 && (code < 0x10000 || code > 0x10ffff);
}

}  // namespace

std::optional<Character> FirstCharacter(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  const size_t bytes = LengthBy(first);
  if (bytes == 0 || bytes > text.size()) return std::nullopt;
  if (bytes == 1) return Character{first, 1};
  uint32_t code = first & (0xffU >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xc0U) != 0x80) return std::nullopt;
    code = code << 6U | (next & 0x3fU);
  }
  if (IsForbidden(code, bytes)) return std::nullopt;
  return Character{code, bytes};
}

bool IsControl(uint32_t code) {
  if (code < 0x20 || (code >= 0x7f && code < 0xa0)) return true;
  return code == 0x61c || code == 0x200e || code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
         (code >= 0x2066 && code <= 0x2069) || code == 0xfeff;
}

bool IsPlain(std::string_view text) {
  while (!text.empty()) {
    const std::optional<Character> character = FirstCharacter(text);
    if (!character || IsControl(character->code)) return false;
    text.remove_prefix(character->bytes);
  }
  return true;
}

}  // namespace lodgekv
