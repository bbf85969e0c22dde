// The names of key formats in the configuration, metrics and errors.
#pragma once

#include <string_view>

#include "index/engine.h"

namespace lodgekv {

// Empty for an unknown number.
constexpr std::string_view KeyFormatName(KeyFormat format) {
  switch (format) {
    case KeyFormat::kBytes: return "bytes";
    case KeyFormat::kFixed64: return "fixed64";
  }
  return {};
}

}  // namespace lodgekv
