#include "bench/server_bench/process_cost.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace lodgekv::server_bench {
namespace {

uint64_t SleepsOf(const std::filesystem::path& task) {
  std::ifstream status(task / "status");
  for (std::string word; status >> word;) {
    if (word != "voluntary_ctxt_switches:") continue;
    uint64_t sleeps = 0;
    status >> sleeps;
    return sleeps;
  }
  return 0;
}

}  // namespace

absl::StatusOr<ProcessCost> CostOf(uint64_t pid) {
  std::error_code error;
  ProcessCost cost;
  const std::filesystem::path tasks = absl::StrCat("/proc/", pid, "/task");
  for (const auto& task : std::filesystem::directory_iterator(tasks, error)) {
    uint64_t ran_ns = 0;
    std::ifstream(task.path() / "schedstat") >> ran_ns;
    cost.processor_ns += ran_ns;
    cost.sleeps += SleepsOf(task.path());
  }
  if (!error) return cost;
  return absl::NotFoundError(absl::StrCat(tasks.string(), ": ", error.message()));
}

}  // namespace lodgekv::server_bench
