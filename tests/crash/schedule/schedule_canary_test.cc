// Every mistake that matters to several threads must be noticed.
#include <gtest/gtest.h>

#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/crash/canaries/canaries.h"
#include "tests/crash/explorer/plan.h"
#include "tests/crash/lab/crash_points.h"
#include "tests/crash/lab/isolated.h"
#include "tests/crash/schedule/schedule_plan.h"

namespace lodgekv::test {
namespace {

constexpr uint64_t kSchedulesPerCanary = 40'000;
// Without runs after a crash.
constexpr uint64_t kSchedulesOfOneRun = 3'000;
// Some of them fail with a canary.
constexpr uint64_t kProgramsToFail = 12;
constexpr unsigned kSecondsPerCanary = 120 * kSanitizerSlowdown;
constexpr CrashModel kModels[] = {CrashModel::kLinePrefix, CrashModel::kTornWords};

bool Applies(const Canary& canary, CrashModel model) {
  return canary.under == Under::kBoth ||
         (canary.under == Under::kLinePrefix) == (model == CrashModel::kLinePrefix);
}

// One program of each mixture and case in rotation, so that easy mistakes are caught soon.
std::string Hunt(const EngineInfo& engine, const Canary& canary, CrashModel model,
                 bool continues = true) {
  Scheduler scheduler(3, kGuests);
  ScheduleResult total;
  std::vector<EngineCase> cases = ScheduleCases();
  std::erase_if(cases, [&](const EngineCase& engine_case) {
    return engine_case.engine != &engine || (canary.in == In::kFixed64 && !engine_case.fixed64()) ||
           (canary.in == In::kBytes && engine_case.fixed64());
  });
  std::vector<std::unique_ptr<ScheduleExplorer>> explorers;
  for (const EngineCase& engine_case : cases) {
    ScheduleOptions options;
    options.engine_case = engine_case;
    options.model = model;
    options.fault = canary.fault;
    if (!continues) options.continue_one_in = 0;
    explorers.push_back(std::make_unique<ScheduleExplorer>(options, scheduler));
  }
  const uint64_t most = continues ? kSchedulesPerCanary : kSchedulesOfOneRun;
  for (uint64_t number = 0; total.schedules < most; ++number) {
    for (size_t i = 0; i < cases.size(); ++i) {
      for (PlannedPrograms& planned : PlanPrograms(cases[i])) {
        if (planned.plan.exhaustive_up_to > 0) continue;
        total.Add(explorers[i]->Run(planned.mixture, number, planned.plan));
        if (!total.failure) continue;
        const std::string what = total.failure->substr(0, total.failure->find('\n'));
        return absl::StrFormat("caught %6d schedules %7d images behind %d crashes  %s",
                               total.schedules, total.images + total.nested, total.crashes,
                               what.substr(0, 90));
      }
    }
  }
  return absl::StrFormat("MISSED in %d schedules; the mistake was %s", total.schedules,
                         total.fault_happened ? "made" : "never made");
}

TEST(ScheduleCanariesTest, AreAllCaught) {
  unsigned count = 0;
  unsigned missed = 0;
  for (const EngineInfo* engine : AllPersistentEngines()) {
    const std::span<const Canary> canaries = ScheduleCanariesOf(engine->name);
    EXPECT_FALSE(canaries.empty()) << "no canary is known for engine " << engine->name
                                   << ": list its in tests/engines/NAME.cc";
    for (const Canary& canary : canaries) {
      for (const CrashModel model : kModels) {
        if (!Applies(canary, model)) continue;
        const IsolatedResult result =
            RunIsolated(kSecondsPerCanary, [&] { return Hunt(*engine, canary, model); });
        const std::string outcome =
            result.death.empty() ? result.report : absl::StrCat("caught  ", result.death);
        const bool caught = outcome.substr(0, 6) == "caught";
        (caught ? count : missed) += 1;
        std::cout << absl::StreamFormat("%-14s %-14s %-42s %s\n", std::string(canary.group),
                                        ModelName(model), std::string(canary.name), outcome)
                  << std::flush;
        EXPECT_TRUE(caught) << "engine " << engine->name << ", " << canary.group << ": "
                            << canary.name << ", " << ModelName(model) << ": " << outcome << "; "
                            << SeedNote();
      }
    }
  }
  std::cout << count << " caught, " << missed << " missed\n";
}

// Mistakes that only recovery makes: they show only after another crash.
TEST(ScheduleCanariesTest, BehindACrashAreCaughtThereOnly) {
  for (const EngineInfo* engine : AllPersistentEngines()) {
    for (const Canary& canary : ScheduleCanariesOf(engine->name)) {
      if (canary.group != kBehindCrash) continue;
      const IsolatedResult result = RunIsolated(
          kSecondsPerCanary, [&] { return Hunt(*engine, canary, CrashModel::kLinePrefix, false); });
      EXPECT_EQ(result.report.substr(0, 6), "MISSED")
          << canary.name << ": " << result.report << result.death;
    }
  }
}

// The number of the failed schedule, which a failure prints after mixture and program.
uint64_t ScheduleOf(const std::string& failure) {
  const size_t run = failure.find(", run ");
  return std::stoull(failure.substr(failure.find('/', failure.find('/', run) + 1) + 1));
}

// A schedule run alone, in new threads, has the same continued runs as among others.
TEST(ScheduleCanariesTest, AFailureBehindACrashRepeatsAlone) {
  unsigned repeated = 0;
  for (const EngineCase& engine_case : ScheduleCases()) {
    for (const Canary& canary : ScheduleCanariesOf(engine_case.engine->name)) {
      if (canary.group != kBehindCrash || engine_case.fixed64()) continue;
      ScheduleOptions options;
      options.engine_case = engine_case;
      options.fault = canary.fault;
      const PlannedPrograms planned = PlanPrograms(engine_case).front();
      const auto run = [&](uint64_t number, std::optional<uint64_t> only) {
        Scheduler scheduler(3, kGuests);
        return ScheduleExplorer(options, scheduler)
            .Run(planned.mixture, number, planned.plan, only);
      };
      for (uint64_t number = 0; number < kProgramsToFail; ++number) {
        const ScheduleResult among_others = run(number, {});
        if (!among_others.failure || among_others.crashes == 0) continue;
        EXPECT_EQ(run(number, ScheduleOf(*among_others.failure)).failure, among_others.failure);
        ++repeated;
      }
    }
  }
  EXPECT_GT(repeated, 0U);
}

// A row whose name is not in the sources tests nothing.
TEST(ScheduleCanariesTest, AreInTheSources) {
  const NamesInSources names = ReadNames(LODGEKV_INDEX_DIR);
  for (const EngineInfo* engine : AllPersistentEngines()) {
    for (const Canary& canary : ScheduleCanariesOf(engine->name)) {
      const std::string where(canary.fault.where);
      const bool asks = canary.fault.kind == Fault::Kind::kAsk;
      EXPECT_TRUE(where.empty() || (asks ? names.canaries : names.crash_points).contains(where))
          << where << " is in no source";
    }
  }
}

}  // namespace
}  // namespace lodgekv::test
