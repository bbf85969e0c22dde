// The slots of each line of a leaf, as masks: a table, since to look at each slot would be part of
// the path of a write.
#pragma once

#include <array>
#include <bit>
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

// One of `free`, which are not none: in the first line, where it costs the least, if a slot is free
// there; otherwise in the line with the most free slots.
template <size_t kLines>
unsigned ChooseSlot(const std::array<uint32_t, kLines>& by_line, uint32_t free) {
  uint32_t best = free & by_line[0];
  if (best != 0) return static_cast<unsigned>(std::countr_zero(best));
  for (size_t line = 1; line < kLines; ++line) {
    const uint32_t here = free & by_line[line];
    if (std::popcount(here) > std::popcount(best)) best = here;
  }
  return static_cast<unsigned>(std::countr_zero(best));
}

}  // namespace lodgekv
