#include "bench/server_bench/read_counts.h"

#include <fstream>

#include "absl/strings/str_cat.h"

namespace lodgekv::server_bench {

absl::StatusOr<ProcessCounts> ReadCounts(const std::string& path) {
  ProcessCounts counts;
  std::ifstream file(path, std::ios::binary);
  if (file.read(reinterpret_cast<char*>(&counts), sizeof counts)) return counts;
  return absl::NotFoundError(absl::StrCat(path, " has no counts of a process"));
}

}  // namespace lodgekv::server_bench
