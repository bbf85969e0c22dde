// Deterministic keys and values for tests: the same number gives the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "index/engine.h"

namespace lodgekv::test {

// 8 bytes, most significant first: their byte order is the order of the numbers.
std::string BigEndian(uint64_t number);
uint64_t FromBigEndian(std::string_view bytes);

// Keys whose byte order is the order of `number`, which is below 10^9; all different. In `bytes`
// they share more than their first 8 bytes.
std::string OrderedKey(KeyFormat format, uint64_t number);

// A value that encodes `id` (below 2^63; see IdOf). In `bytes` of max(8, bytes) bytes.
std::string ValueOf(KeyFormat format, uint64_t id, size_t bytes = 8);
uint64_t IdOf(std::string_view value);

// A realistic or error-prone shape of keys. Different numbers may give the same key.
struct KeyFamily {
  std::string_view name;
  std::string (*make)(uint64_t number);
};
std::span<const KeyFamily> KeyFamilies(KeyFormat format);

}  // namespace lodgekv::test
