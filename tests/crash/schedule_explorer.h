// Runs programs of several threads under a scheduler, draws crash images at each fence and behind
// each call, opens them with the engine's real recovery, and asks the history whether they may be.
//
// A program's tree is made once; each schedule begins with a copy of its image and the engine's
// recovery of it. Images that were met before in the same program are not opened again: what
// recovery makes of an image depends on its bytes only.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "tests/crash/concurrent_history.h"
#include "tests/crash/image_set.h"
#include "tests/crash/open_pool.h"
#include "tests/crash/program.h"
#include "tests/crash/scheduled_calls.h"
#include "tests/crash/scheduled_tracer.h"
#include "tests/crash/scheduler.h"
#include "tests/crash/strategies.h"
#include "tests/crash/watchdog.h"
#include "tests/support/arena_memory.h"

namespace lodgekv::test {

struct ScheduleOptions {
  EngineCase engine_case;
  CrashModel model = CrashModel::kLinePrefix;
  Fault fault = {};
  uint64_t memory_bytes = uint64_t{64} << 10;
  uint64_t chunk_bytes = 4096;
  unsigned images = 4;   // of a position
  bool shrinks = false;  // a program that fails is made smaller, as long as it still fails
};

struct ScheduleResult {
  uint64_t programs = 0;
  uint64_t schedules = 0;
  uint64_t exhausted = 0;  // programs of which every schedule was run
  uint64_t steps = 0;
  uint64_t switches = 0;
  uint64_t positions = 0;
  uint64_t images = 0;
  uint64_t recoveries = 0;  // images that had not been met before
  uint64_t pool_full = 0;
  std::array<uint64_t, static_cast<size_t>(PointKind::kCount)> points{};
  std::set<std::string, std::less<>> crash_points;
  bool fault_happened = false;
  std::optional<std::string> failure;

  void Add(const ScheduleResult& other);
};

class ScheduleExplorer {
 public:
  // What is run of each program.
  struct Plan {
    unsigned random = 20;           // schedules by random priorities
    unsigned depth = 3;             // their changes of priority
    uint64_t exhaustive_up_to = 0;  // of all schedules with few preemptions, at most so many
    unsigned preemptions = 2;
  };

  ScheduleExplorer(const ScheduleOptions& options, Scheduler& scheduler);
  ~ScheduleExplorer();

  // Draws program `number` of the mixture and runs it. `only`: this schedule of it alone.
  ScheduleResult Run(const ProgramMixture& mixture, uint64_t number, const Plan& plan,
                     std::optional<uint64_t> only = {});

 private:
  struct Hash {
    uint64_t low;
    uint64_t high;
    bool operator==(const Hash&) const = default;
  };
  struct HashOfHash {
    size_t operator()(const Hash& hash) const { return hash.low; }
  };

  void Draw(const ProgramMixture& mixture);
  // `complete` is called before the history is made, with an engine that holds the tree.
  bool MakeTree(absl::FunctionRef<void(Engine&)> complete);
  void RunRandom(const Plan& plan, std::optional<uint64_t> only);
  void RunExhaustive(const Plan& plan, std::optional<uint64_t> only);
  void RunSchedule(Strategy& strategy, uint32_t kinds, bool counts);
  void RunThread(unsigned thread, const std::vector<Call>& calls);
  void Look(const char* position);
  void Try(const ImageSet& images, const ImageSet::Picks& picks);
  Observation Recover();
  void Shrink(const Plan& plan);
  std::optional<std::string> FindFailure(const Plan& plan);
  pmem::Pool::ArenaOptions ArenaOf(const ArenaMemory& memory, pmem::Tracer* tracer) const;
  OpenPool OpenEngine(const ArenaMemory& memory, pmem::Tracer* tracer, std::string* problem);
  void Fail(const std::string& what, const std::string& image);
  std::string Where() const;

  const ScheduleOptions options_;
  Scheduler& scheduler_;
  const ScheduledWaits waits_;
  ScheduleResult result_;

  Program program_;
  uint64_t number_ = 0;
  uint64_t schedule_ = 0;
  const char* way_ = "";
  OptionValues engine_options_;
  ArenaMemory tree_;
  ArenaMemory memory_;
  ArenaMemory image_;
  std::unique_ptr<ConcurrentHistory> history_;
  std::unique_ptr<ScheduledTracer> tracer_;
  std::optional<OpenPool> open_;
  Random random_;
  bool looking_ = false;
  uint64_t quiet_until_ = 0;  // choices of the strategy: up to there all was looked at before
  const BoundedExhaustive* exhaustive_ = nullptr;
  const char* position_ = "";
  std::unordered_map<Hash, Observation, HashOfHash> seen_;
  Watchdog watchdog_;
};

}  // namespace lodgekv::test
