// The slots of each line of a leaf, as masks: a table, since to look at each slot would be part of
// the path of a write.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace lodgekv {

// line_of(slot): the line of a slot below `slots`.
template <size_t kLines, class LineOf>
consteval std::array<uint32_t, kLines> SlotsByLine(unsigned slots, LineOf line_of) {
  std::array<uint32_t, kLines> by_line{};
  for (unsigned slot = 0; slot < slots; ++slot) by_line[line_of(slot)] |= uint32_t{1} << slot;
  return by_line;
}

}  // namespace lodgekv
