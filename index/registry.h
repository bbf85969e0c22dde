// The engines of this build. A line in index/CMakeLists.txt adds one.
#pragma once

#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/engine_info.h"

namespace lodgekv {

// All engines, persistent ones first, in the order of index/CMakeLists.txt.
std::span<const EngineInfo* const> AllEngines();

// NotFound names the unknown engine and lists the known ones.
absl::StatusOr<const EngineInfo*> FindEngine(std::string_view name);

// An Unimplemented error that names the engine, and those that support bulk load.
absl::Status NoBulkLoad(std::string_view engine);

}  // namespace lodgekv
