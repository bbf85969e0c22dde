// Whole files in gzip's format.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lodgekv::test {

absl::StatusOr<std::string> ReadGzip(const std::string& path);
absl::Status WriteGzip(const std::string& path, const std::string& content);

}  // namespace lodgekv::test
