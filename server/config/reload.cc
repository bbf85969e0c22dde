#include "server/config/reload.h"

#include <spdlog/fmt/fmt.h>

#include <variant>

namespace lodgekv::server {
namespace {

void CopyField(const Config& from, Config& to, const ConfigField& field) {
  std::visit([&](auto member) { to.*member = from.*member; }, field.member);
}

void PlanField(const Config& running, const Config& fresh, const ConfigField& field,
               ReloadPlan& plan) {
  const std::string before = FormatConfigField(running, field);
  const std::string after = FormatConfigField(fresh, field);
  if (before == after) return;
  (field.reloadable ? plan.changed : plan.needs_restart)
      .push_back(fmt::format("{}: {} -> {}", field.name, before, after));
  if (field.reloadable) CopyField(fresh, plan.config, field);
}

}  // namespace

absl::StatusOr<ReloadPlan> PlanReload(const Config& running, const ConfigSources& sources) {
  // A running daemon does not read a pipe: it would handle no signal while it waits.
  const absl::StatusOr<LoadedConfig> loaded = LoadConfig(sources, FileKind::kRegular);
  if (!loaded.ok()) return loaded.status();
  absl::Status status = ValidateConfig(loaded->config);
  if (!status.ok()) return status;
  ReloadPlan plan{.config = running, .changed = {}, .needs_restart = {}};
  for (const ConfigSection& section : ConfigSections()) {
    for (const ConfigField& field : section.fields) {
      PlanField(running, loaded->config, field, plan);
    }
  }
  // A new limit may be valid only with a new value of a field that needs a restart.
  status = ValidateConfig(plan.config);
  if (status.ok()) return plan;
  return absl::FailedPreconditionError(fmt::format(
      "not without a restart: {} (as it is until then)", std::string(status.message())));
}

}  // namespace lodgekv::server
