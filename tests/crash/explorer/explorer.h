// The explorer runs an engine on a traced arena. At each fence and at the end of each operation it
// draws images that a crash may leave, opens each with the engine's real recovery and compares it
// with the oracle. Some images are continued: recovery itself is traced and interrupted, more steps
// follow, and so on to a maximum depth.
//
// Everything is drawn from one seed: the same options and seed give the same images.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "index/pmem/pool.h"
#include "tests/crash/lab/image_set.h"
#include "tests/crash/lab/oracle.h"
#include "tests/crash/lab/script.h"
#include "tests/crash/lab/tracer.h"
#include "tests/crash/lab/watchdog.h"
#include "tests/crash/lab/workers.h"
#include "tests/crash/lab/workload.h"
#include "tests/support/arena_memory.h"
#include "tests/support/engine_case.h"

namespace lodgekv::test {

struct ExplorerOptions {
  EngineCase engine_case;
  CrashModel model = CrashModel::kLinePrefix;
  bool long_fences = false;  // with torn words: an ordinary file, otherwise CXL memory
  Mixture mixture;
  std::map<std::string, std::string> engine_options;  // override those of the case
  uint64_t memory_bytes = uint64_t{128} << 10;
  uint64_t chunk_bytes = 4096;
  unsigned warm_up = 0;  // puts of distinct keys before the first image
  unsigned steps = 60;
  // Images at one position up to which all are tried (a quarter after a crash). Above that: the
  // edge cases and samples.
  unsigned exhaustive_up_to = 64;
  unsigned samples = 8;
  unsigned continue_one_in = 60;  // images that are continued
  unsigned steps_of_continued = 6;
  // So many times in turn the power goes off at one of the checked positions after `steps`, and a
  // new run continues from one of its images.
  unsigned crashes = 0;
  unsigned max_depth = 2;
  unsigned threads = 1;  // steps are distributed to this many threads, one at a time
  uint64_t max_images = UINT64_MAX;
  uint64_t first_sequence = 1;  // the first sequence number of the new pool
  uint64_t run = 0;             // number of the run: selects its stream of random numbers
  Fault fault = {};
  bool shrink = true;  // reduce a failure to the shortest sequence
};

struct ExplorerResult {
  uint64_t steps = 0;
  uint64_t positions = 0;
  uint64_t exhaustive_positions = 0;  // positions with all images drawn
  uint64_t images = 0;
  uint64_t nested_images = 0;  // of these: in a run that began with a crash
  uint64_t continued = 0;      // images whose run is continued
  bool fault_happened = false;
  std::set<std::string, std::less<>> crash_points;
  std::optional<std::string> failure;
  // How to repeat the failure: the whole script, and as text the shortest one found.
  Script script;
  std::string shortest;

  void Add(const ExplorerResult& other);
};

class Explorer {
 public:
  explicit Explorer(const ExplorerOptions& options);
  ~Explorer();

  // Runs to the end, to the first failure, or to max_images.
  ExplorerResult Run();

 private:
  class EngineRun;

  void RunAll();
  bool Ended() const {
    return result_.failure.has_value() || result_.images >= options_.max_images;
  }
  std::string Where() const;

  const ExplorerOptions options_;
  const OptionValues engine_options_;
  Random random_;
  Workload workload_;
  std::unique_ptr<Workers> workers_;
  ExplorerResult result_;
  Watchdog* watchdog_ = nullptr;
  std::atomic<const EngineRun*> current_run_{nullptr};  // the run that is working now
};

// Draws small values for the engine's options, so that rare steps become frequent. Based on the
// engines' option tables.
std::map<std::string, std::string> DrawEngineOptions(const EngineInfo& engine, Random& random);

}  // namespace lodgekv::test
