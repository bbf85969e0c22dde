// engine_bench: measures index engines in process, with two baselines.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string>

#include "bench/engine_bench/bench_options.h"
#include "bench/engine_bench/bench_run.h"
#include "bench/engine_bench/report.h"

namespace {

constexpr int kUsageError = 2;

int Fail(const std::string& message, int code) {
  std::fflush(stdout);
  std::fprintf(stderr, "engine_bench: %s\n", message.c_str());
  return code;
}

struct CloseFile {
  void operator()(std::FILE* file) const {
    if (file != stdout) std::fclose(file);
  }
};

void PrintTables(const lodgekv::bench::BenchResults& results) {
  if (!results.phases.empty()) {
    std::printf("\n%s", lodgekv::bench::FormatResults(results.phases).c_str());
  }
  if (!results.windows.empty()) {
    std::printf("\n%s", lodgekv::bench::FormatWindows(results.windows).c_str());
  }
  if (!results.full_stages.empty()) {
    std::printf("\n%s", lodgekv::bench::FormatFullStages(results.full_stages).c_str());
  }
  if (!results.recoveries.empty()) {
    std::printf("\n%s", lodgekv::bench::FormatRecoveries(results.recoveries).c_str());
  }
}

int Run(int argc, char** argv) {
  auto options = lodgekv::bench::ParseBenchOptions(argc, argv);
  if (!options.ok()) return Fail(std::string(options.status().message()), kUsageError);
  if (!*options) return 0;
  std::unique_ptr<std::FILE, CloseFile> json;
  if (const std::string& path = (*options)->json_path; !path.empty()) {
    json.reset(path == "-" ? stdout : std::fopen(path.c_str(), "w"));
    if (json == nullptr) return Fail("--json: cannot write " + path + ": " + strerror(errno), 1);
  }
  lodgekv::bench::BenchResults results;
  const absl::Status status = lodgekv::bench::RunBench(**options, json.get(), &results);
  PrintTables(results);
  return status.ok() ? 0 : Fail(std::string(status.message()), 1);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run(argc, argv);
  } catch (const std::exception& error) {
    return Fail(error.what(), 1);
  }
}
