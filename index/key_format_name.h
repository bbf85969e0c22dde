// The key formats as operators name them: in the configuration, in metrics, in errors.
#pragma once

#include <string_view>

#include "index/engine.h"

namespace lodgekv {

// Empty for a number that is none of them.
constexpr std::string_view KeyFormatName(KeyFormat format) {
  switch (format) {
    case KeyFormat::kBytes: return "bytes";
    case KeyFormat::kFixed64: return "fixed64";
  }
  return {};
}

}  // namespace lodgekv
