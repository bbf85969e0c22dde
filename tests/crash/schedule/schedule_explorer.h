// Runs programs of several threads under a scheduler: each schedule is a run over the program's
// tree (scheduled_run.h), with crash images throughout, and further runs that continue some of
// them.
//
// A program's tree is built once; each schedule begins with a copy of its image and the engine's
// recovery of it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tests/crash/lab/watchdog.h"
#include "tests/crash/schedule/concurrent_history.h"
#include "tests/crash/schedule/program.h"
#include "tests/crash/schedule/scheduled_calls.h"
#include "tests/crash/schedule/scheduled_run.h"
#include "tests/crash/schedule/scheduler.h"
#include "tests/crash/schedule/strategies.h"
#include "tests/support/arena_memory.h"

namespace lodgekv::test {

class ScheduleExplorer {
 public:
  // How much of each program is run.
  struct Plan {
    unsigned random = 20;  // schedules by random priorities
    unsigned depth = 3;    // priority changes in each
    uint64_t exhaustive_up_to =
        0;  // limit of an exhaustive search of schedules with few preemptions
    unsigned preemptions = 2;
  };

  ScheduleExplorer(const ScheduleOptions& options, Scheduler& scheduler);
  ~ScheduleExplorer();

  // Draws program `number` of the mixture and runs it. `only`: just this schedule of it.
  ScheduleResult Run(const ProgramMixture& mixture, uint64_t number, const Plan& plan,
                     std::optional<uint64_t> only = {});

 private:
  void Draw(const ProgramMixture& mixture);
  // `complete` is called with an engine that holds the tree, before the history is made.
  bool MakeTree(absl::FunctionRef<void(Engine&)> complete);
  void RunRandom(const Plan& plan, std::optional<uint64_t> only);
  void RunExhaustive(const Plan& plan, std::optional<uint64_t> only);
  void RunSchedule(Strategy& strategy, uint32_t kinds, bool counts);
  void Shrink(const Plan& plan);
  std::optional<std::string> FindFailure(const Plan& plan);
  void Attend(Scheduler& scheduler);
  std::string Locate() const;
  std::string Where() const;

  ScheduledRun::Shared shared_;
  Scheduler& scheduler_;
  Scheduler scheduler_behind_crash_;
  const ScheduledWaits waits_;
  ScheduledRun third_life_;
  ScheduledRun second_life_;
  ScheduledRun run_;

  uint64_t number_ = 0;
  uint64_t schedule_ = 0;
  const char* way_ = "";
  ArenaMemory tree_;
  std::unique_ptr<ConcurrentHistory> history_;
  uint64_t quiet_until_ = 0;  // choices of the strategy up to which everything was already checked
  const BoundedExhaustive* exhaustive_ = nullptr;
  Watchdog watchdog_;
};

}  // namespace lodgekv::test
