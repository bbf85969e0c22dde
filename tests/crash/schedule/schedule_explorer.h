// Runs programs of several threads under a scheduler: each schedule is a life of the program's tree
// (schedule_life.h), with crash images all along, and lives that follow on some of them.
//
// A program's tree is made once; each schedule begins with a copy of its image and the engine's
// recovery of it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tests/crash/lab/watchdog.h"
#include "tests/crash/schedule/concurrent_history.h"
#include "tests/crash/schedule/program.h"
#include "tests/crash/schedule/schedule_life.h"
#include "tests/crash/schedule/scheduled_calls.h"
#include "tests/crash/schedule/scheduler.h"
#include "tests/crash/schedule/strategies.h"
#include "tests/support/arena_memory.h"

namespace lodgekv::test {

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
  void Draw(const ProgramMixture& mixture);
  // `complete` is called before the history is made, with an engine that holds the tree.
  bool MakeTree(absl::FunctionRef<void(Engine&)> complete);
  void RunRandom(const Plan& plan, std::optional<uint64_t> only);
  void RunExhaustive(const Plan& plan, std::optional<uint64_t> only);
  void RunSchedule(Strategy& strategy, uint32_t kinds, bool counts);
  void Shrink(const Plan& plan);
  std::optional<std::string> FindFailure(const Plan& plan);
  void Attend(Scheduler& scheduler);
  std::string Locate() const;
  std::string Where() const;

  ScheduledLife::Shared shared_;
  Scheduler& scheduler_;
  Scheduler scheduler_behind_crash_;
  const ScheduledWaits waits_;
  ScheduledLife third_life_;
  ScheduledLife second_life_;
  ScheduledLife life_;

  uint64_t number_ = 0;
  uint64_t schedule_ = 0;
  const char* way_ = "";
  ArenaMemory tree_;
  std::unique_ptr<ConcurrentHistory> history_;
  uint64_t quiet_until_ = 0;  // choices of the strategy: up to there all was looked at before
  const BoundedExhaustive* exhaustive_ = nullptr;
  Watchdog watchdog_;
};

}  // namespace lodgekv::test
