#include "index/registry.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace lodgekv {

#include "engine_list.inc"

std::span<const EngineInfo* const> AllEngines() { return kEngines; }

absl::StatusOr<const EngineInfo*> FindEngine(std::string_view name) {
  for (const EngineInfo* engine : AllEngines()) {
    if (engine->name == name) return engine;
  }
  std::string known;
  for (const EngineInfo* engine : AllEngines()) {
    known.append(known.empty() ? "" : ", ").append(engine->name);
  }
  return absl::NotFoundError(
      absl::StrCat("unknown engine '", std::string(name), "'; this build has: ", known));
}

}  // namespace lodgekv
