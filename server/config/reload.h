// What changes when a running daemon reads its configuration again.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/config/config.h"

namespace lodgekv::server {

// Changed fields as "log_level: info -> debug".
struct ReloadPlan {
  Config config;  // to use from now on
  std::vector<std::string> changed;
  std::vector<std::string> needs_restart;  // differ from `config`, which keeps the running values
};

// Reads and validates `sources` completely, then takes the reloadable fields from them and the
// others from `running`. An error when the sources are invalid, or when the combination is.
absl::StatusOr<ReloadPlan> PlanReload(const Config& running, const ConfigSources& sources);

}  // namespace lodgekv::server
