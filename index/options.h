// The table of an engine's options: one row is the source for validation, --help and the
// benchmark's output.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace lodgekv {

struct EngineOption {
  std::string_view name;  // snake_case; the paper's own word if it has one
  uint64_t default_value = 0;
  uint64_t min_value = 0;
  uint64_t max_value = 0;  // a switch has 0..1
  std::string_view doc;    // one line, with the unit
};

// Values of one engine's options, complete and within bounds.
class OptionValues {
 public:
  // Defaults of `table`, overridden by `given` (name -> decimal number; a switch also accepts true,
  // false, on and off). InvalidArgument: names an unknown option with the nearest known one, or the
  // bounds.
  static absl::StatusOr<OptionValues> Parse(std::span<const EngineOption> table,
                                            const std::map<std::string, std::string>& given);

  // The value of an option in the table; aborts on an unknown name (a programming error).
  uint64_t Get(std::string_view name) const;

  const std::map<std::string, uint64_t, std::less<>>& values() const { return values_; }

 private:
  std::map<std::string, uint64_t, std::less<>> values_;
};

}  // namespace lodgekv
