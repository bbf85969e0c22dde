// The command line of engine_bench: parsed, completed and checked before anything is opened.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/engine_bench/engine_target.h"
#include "bench/engine_bench/tsc_clock.h"
#include "bench/engine_bench/workload.h"

namespace lodgekv::bench {

struct BenchOptions {
  // Every engine with every key format and, for `bytes`, every key shape.
  std::vector<Subject> subjects;
  std::vector<Phase> phases;  // `recover` among them
  Distribution load_distribution = Distribution::kUniform;
  uint64_t keys = 0;
  unsigned bulk_load_fill = 0;  // percent; 0: the load consists of inserts
  uint64_t ops = 0;             // of each phase and thread count, except load
  uint64_t latency_ops = 0;     // the same for the latency pass
  OpEnd op_end = OpEnd::kDrained;
  unsigned chunks = 0;
  std::vector<unsigned> threads;
  std::vector<Grouping> groups = {{}};
  std::vector<unsigned> recovery_threads;
  unsigned repeat = 1;
  uint64_t seed = 0;
  std::string pool_path;
  StoreSettings store;
  std::string json_path;
  bool baselines = true;
  bool pin = true;
  bool keep_pool = false;
  bool kill_after_load = false;
  // The options as given; and every option with its value, for the output.
  std::vector<std::pair<std::string, std::string>> shown;

  bool Measures(Workload workload) const;
  // Whether anything but recovery is measured.
  bool MeasuresOperations() const;
};

// Nothing if the output is complete (--help). Errors name the option, its value and valid ones.
absl::StatusOr<std::optional<BenchOptions>> ParseBenchOptions(int argc, const char* const* argv);

}  // namespace lodgekv::bench
