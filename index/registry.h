// The engines of this build. One line in index/CMakeLists.txt adds one.
#pragma once

#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "index/engine_info.h"

namespace lodgekv {

// All engines, persistent ones first, in the order of index/CMakeLists.txt.
std::span<const EngineInfo* const> AllEngines();

// NotFound names the engine and lists the known ones.
absl::StatusOr<const EngineInfo*> FindEngine(std::string_view name);

}  // namespace lodgekv
