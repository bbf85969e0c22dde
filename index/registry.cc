#include "index/registry.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace lodgekv {

#include "engine_list.inc"

std::span<const EngineInfo* const> AllEngines() { return kEngines; }

namespace {

template <class Predicate>
std::string NamesOf(Predicate predicate) {
  std::string names;
  for (const EngineInfo* engine : AllEngines()) {
    if (predicate(*engine)) names.append(names.empty() ? "" : ", ").append(engine->name);
  }
  return names;
}

}  // namespace

absl::StatusOr<const EngineInfo*> FindEngine(std::string_view name) {
  for (const EngineInfo* engine : AllEngines()) {
    if (engine->name == name) return engine;
  }
  return absl::NotFoundError(
      absl::StrCat("unknown engine '", std::string(name),
                   "'; this build has: ", NamesOf([](const EngineInfo&) { return true; })));
}

absl::Status NoBulkLoad(std::string_view engine) {
  const std::string able =
      NamesOf([](const EngineInfo& info) { return info.bulk_load != nullptr; });
  return absl::UnimplementedError(
      absl::StrCat("engine ", std::string(engine), " has no bulk load; of this build's engines ",
                   able.empty() ? "none has one" : absl::StrCat("these have one: ", able),
                   "; load it by writes"));
}

}  // namespace lodgekv
