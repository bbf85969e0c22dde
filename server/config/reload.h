// What a running daemon makes of its configuration when it reads it again.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/config/config.h"

namespace lodgekv::server {

// Fields as "log_level: info -> debug".
struct ReloadPlan {
  Config config;  // to serve with from now on
  std::vector<std::string> changed;
  std::vector<std::string> needs_restart;  // differ from `config`, which keeps the running values
};

// Reads and validates `sources` whole, then takes the reloadable fields from them and the others
// from `running`. An error when the sources are bad, or when the two do not go together.
absl::StatusOr<ReloadPlan> PlanReload(const Config& running, const ConfigSources& sources);

}  // namespace lodgekv::server
