// The explorer: runs an engine on a traced arena, draws at each fence and at each operation's end
// the images that a crash may leave, opens each with the engine's real recovery and compares it
// with the oracle. Some images are lived on: recovery itself is traced and cut, more steps follow,
// and so on to a depth.
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
#include "tests/crash/lab/hands.h"
#include "tests/crash/lab/image_set.h"
#include "tests/crash/lab/oracle.h"
#include "tests/crash/lab/script.h"
#include "tests/crash/lab/tracer.h"
#include "tests/crash/lab/watchdog.h"
#include "tests/crash/lab/workload.h"
#include "tests/support/arena_memory.h"
#include "tests/support/engine_case.h"

namespace lodgekv::test {

struct ExplorerOptions {
  EngineCase engine_case;
  CrashModel model = CrashModel::kLinePrefix;
  bool long_fences = false;  // with torn words: an ordinary file, else CXL memory
  Mixture mixture;
  std::map<std::string, std::string> engine_options;  // over those of the case
  uint64_t memory_bytes = uint64_t{128} << 10;
  uint64_t chunk_bytes = 4096;
  unsigned warm_up = 0;  // puts of distinct keys before the first image
  unsigned steps = 60;
  unsigned exhaustive_up_to = 64;  // images at one position (a quarter after a crash); above: edges
                                   // and samples
  unsigned samples = 8;
  unsigned live_on_one_in = 60;  // images that are lived on
  unsigned lives_steps = 6;
  // After `steps` the power goes off at one of the moments that were looked at, and the pool lives
  // on from one of its images: so often, one life after the other.
  unsigned crashes = 0;
  unsigned max_depth = 2;
  unsigned threads = 1;  // steps go to one of so many threads, one at a time
  uint64_t max_images = UINT64_MAX;
  uint64_t first_sequence = 1;  // the pool's next number when it is new
  uint64_t run = 0;             // number of the run: another stream of random numbers
  Fault fault = {};
  bool shrink = true;  // a failure, to the shortest sequence
};

struct ExplorerResult {
  uint64_t steps = 0;
  uint64_t positions = 0;
  uint64_t exhaustive_positions = 0;  // all images drawn
  uint64_t images = 0;
  uint64_t nested_images = 0;  // of these: in a life that began with a crash
  uint64_t lives = 0;          // images lived on
  bool fault_happened = false;
  std::set<std::string, std::less<>> crash_points;
  std::optional<std::string> failure;
  // What to do again to see the failure: all of it, and as text the shortest that was found.
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
  class Life;

  void RunAll();
  bool Ended() const {
    return result_.failure.has_value() || result_.images >= options_.max_images;
  }
  std::string Where() const;

  const ExplorerOptions options_;
  const OptionValues engine_options_;
  Random random_;
  Workload workload_;
  std::unique_ptr<Hands> hands_;
  ExplorerResult result_;
  Watchdog* watchdog_ = nullptr;
  std::atomic<const Life*> living_{nullptr};  // the life in which something is done now
};

// Draws small values for the engine's options, so that rare steps become frequent; the same for all
// engines, from their tables.
std::map<std::string, std::string> DrawEngineOptions(const EngineInfo& engine, Random& random);

}  // namespace lodgekv::test
