#include "server/config/config_values.h"

#include <algorithm>
#include <cctype>

#include "index/edit_distance.h"

namespace lodgekv::server {
namespace {

std::string_view Trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) {
    text.remove_prefix(1);
  }
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) {
    text.remove_suffix(1);
  }
  return text;
}

}  // namespace

std::optional<bool> ParseSwitch(std::string_view text) {
  text = Trim(text);
  for (const std::string_view word : {"true", "on", "yes", "1"}) {
    if (text == word) return true;
  }
  for (const std::string_view word : {"false", "off", "no", "0"}) {
    if (text == word) return false;
  }
  return std::nullopt;
}

std::optional<std::string_view> NearestName(std::string_view text,
                                            std::span<const std::string_view> names) {
  std::optional<std::string_view> nearest;
  size_t fewest = std::max<size_t>(2, text.size() / 3) + 1;
  for (const std::string_view name : names) {
    const size_t edits = EditDistance(text, name);
    if (edits >= fewest) continue;
    fewest = edits;
    nearest = name;
  }
  return nearest;
}

}  // namespace lodgekv::server
