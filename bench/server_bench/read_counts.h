// What process_counter.cc has counted in another process.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "bench/server_bench/process_counts.h"

namespace lodgekv::server_bench {

absl::StatusOr<ProcessCounts> ReadCounts(const std::string& path);

}  // namespace lodgekv::server_bench
