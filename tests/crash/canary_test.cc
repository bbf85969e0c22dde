// Every canary must be caught, every crash point must be hit.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tests/crash/batch_in_flight.h"
#include "tests/crash/canaries.h"
#include "tests/crash/crash_points.h"
#include "tests/crash/isolated.h"
#include "tests/crash/plan.h"
#include "tests/crash/released_logs.h"
#include "tests/crash/schedule_canaries.h"

namespace lodgekv::test {
namespace {

constexpr uint64_t kImagesPerCanary = 400'000;
// Far above what so many images take: an engine that hangs is noticed by it, a slow one is not.
constexpr unsigned kSecondsPerCanary = 60 * kSanitizerSlowdown;
constexpr CrashModel kModels[] = {CrashModel::kLinePrefix, CrashModel::kTornWords};

std::vector<EngineCase> CasesOf(const EngineInfo& engine, In in) {
  std::vector<EngineCase> cases = PersistentCases();
  std::erase_if(cases, [&](const EngineCase& engine_case) {
    return engine_case.engine != &engine || (in == In::kFixed64 && !engine_case.fixed64()) ||
           (in == In::kBytes && engine_case.fixed64());
  });
  // Small nodes first: there the rare steps are frequent.
  std::stable_sort(cases.begin(), cases.end(), [](const EngineCase& a, const EngineCase& b) {
    return a.small_nodes > b.small_nodes;
  });
  return cases;
}

bool Applies(const Canary& canary, CrashModel model) {
  return canary.under == Under::kBoth ||
         (canary.under == Under::kLinePrefix) == (model == CrashModel::kLinePrefix);
}

// The runs of all cases in turns, so that what is caught easily is caught soon.
std::vector<ExplorerOptions> Hunt(const EngineInfo& engine, const Canary& canary,
                                  CrashModel model) {
  Effort effort{.runs = 4, .exhaustive_up_to = 32, .samples = 4, .live_on_one_in = 60};
  std::vector<std::vector<ExplorerOptions>> plans;
  size_t longest = 0;
  for (const EngineCase& engine_case : CasesOf(engine, canary.in)) {
    plans.push_back(PlanRuns(engine_case, model, effort));
    // One run of each workload before a second of any.
    std::stable_sort(
        plans.back().begin(), plans.back().end(),
        [](const ExplorerOptions& a, const ExplorerOptions& b) { return a.run < b.run; });
    longest = std::max(longest, plans.back().size());
  }
  std::vector<ExplorerOptions> runs;
  for (size_t i = 0; i < longest; ++i) {
    for (const auto& plan : plans) {
      if (i < plan.size()) runs.push_back(plan[i]);
    }
  }
  return runs;
}

std::string LookAtBatches(const EngineInfo& engine, const Canary& canary, CrashModel model) {
  BatchInFlight sum;
  for (const EngineCase& engine_case : CasesOf(engine, canary.in)) {
    const BatchInFlight seen = LookAtBatchInFlight(engine_case, model, canary.fault);
    sum.images += seen.images;
    sum.with_part += seen.with_part;
  }
  if (sum.with_part == 0) return absl::StrFormat("MISSED in %d images", sum.images);
  return absl::StrFormat("caught %7d images  of them %d with a part of a batch in flight",
                         sum.images, sum.with_part);
}

std::string LookAtLogs(const Canary& canary, CrashModel model) {
  const ReleasedLogs seen = LookAtReleasedLogs(model, canary.fault);
  if (seen.with_old_logs == 0) return absl::StrFormat("MISSED in %d images", seen.images);
  return absl::StrFormat("caught %7d images  of them %d with old logs in a free chunk", seen.images,
                         seen.with_old_logs);
}

// "caught ...", or how it was missed.
std::string HuntCanary(const EngineInfo& engine, const Canary& canary, CrashModel model) {
  if (canary.by == By::kReleasedLogs) return LookAtLogs(canary, model);
  if (canary.by == By::kBatchInFlight) return LookAtBatches(engine, canary, model);
  ExplorerResult total;
  for (ExplorerOptions options : Hunt(engine, canary, model)) {
    options.fault = canary.fault;
    options.max_images = kImagesPerCanary - total.images;
    total.Add(Explorer(options).Run());
    if (total.failure.has_value()) {
      const std::string what = total.failure->substr(0, total.failure->find('\n'));
      return absl::StrFormat("caught %7d images  %s", total.images, what.substr(0, 90));
    }
    if (total.images >= kImagesPerCanary) break;
  }
  return absl::StrFormat("MISSED in %d images; the mistake was %s", total.images,
                         total.fault_happened ? "made" : "never made");
}

// What the canaries are caught with finds nothing where there is no mistake.
TEST(Canaries, WithoutOneNothingIsCaught) {
  for (const EngineInfo* engine : AllPersistentEngines()) {
    for (const CrashModel model : kModels) {
      ExplorerResult total;
      for (ExplorerOptions options : Hunt(*engine, {}, model)) {
        options.max_images = kImagesPerCanary - total.images;
        total.Add(Explorer(options).Run());
        ASSERT_FALSE(total.failure.has_value()) << *total.failure;
        if (total.images >= kImagesPerCanary) break;
      }
      std::cout << absl::StreamFormat("%-28s quiet  %7d images\n", ModelName(model), total.images);
      EXPECT_GE(total.images, kImagesPerCanary);
    }
  }
}

TEST(Canaries, AreAllCaught) {
  unsigned count = 0;
  unsigned missed = 0;
  for (const EngineInfo* engine : AllPersistentEngines()) {
    const std::span<const Canary> canaries = CanariesOf(engine->name);
    EXPECT_FALSE(canaries.empty()) << "no canary is known for engine " << engine->name
                                   << ": list its in tests/crash/canaries.cc";
    for (const Canary& canary : canaries) {
      for (const CrashModel model : kModels) {
        if (!Applies(canary, model)) continue;
        const IsolatedResult result =
            RunIsolated(kSecondsPerCanary, [&] { return HuntCanary(*engine, canary, model); });
        const std::string outcome =
            result.death.empty() ? result.report : absl::StrCat("caught  ", result.death);
        const bool caught = outcome.substr(0, 6) == "caught";
        (caught ? count : missed) += 1;
        std::cout << absl::StreamFormat("%-13s %-14s %-50s %s\n", std::string(canary.group),
                                        ModelName(model), std::string(canary.name), outcome);
        EXPECT_TRUE(caught) << "engine " << engine->name << ", " << canary.group << ": "
                            << canary.name << ", " << ModelName(model) << ": " << outcome << "; "
                            << SeedNote();
      }
    }
  }
  std::cout << count << " caught, " << missed << " missed\n";
}

// A switch that no row names is never thrown; a row whose name no source has tests nothing.
TEST(Canaries, AndSwitchesInTheSourcesAreTheSame) {
  const NamesInSources names = ReadNames(LODGEKV_INDEX_DIR);
  std::set<std::string, std::less<>> listed;
  for (const EngineInfo* engine : AllPersistentEngines()) {
    for (const Canary& canary : CanariesOf(engine->name)) {
      const std::string where(canary.fault.where);
      const bool asks = canary.fault.kind == Fault::Kind::kAsk;
      EXPECT_TRUE((asks ? names.canaries : names.crash_points).contains(where))
          << where << " is in no source";
      if (asks) listed.insert(where);
    }
    for (const Canary& canary : ScheduleCanariesOf(engine->name)) {
      listed.insert(std::string(canary.fault.where));
    }
  }
  for (const std::string& name : names.canaries) {
    EXPECT_TRUE(listed.contains(name)) << "no row of tests/crash/canaries.cc throws " << name;
  }
}

TEST(CrashPoints, AreAllHit) {
  const NamesInSources names = ReadNames(LODGEKV_INDEX_DIR);
  ASSERT_FALSE(names.crash_points.empty()) << "none found below " << LODGEKV_INDEX_DIR;
  const Effort effort{.runs = 2, .exhaustive_up_to = 1, .samples = 1, .live_on_one_in = 30};
  std::set<std::string, std::less<>> unhit = names.crash_points;
  for (const EngineCase& engine_case : PersistentCases()) {
    for (const CrashModel model : kModels) {
      for (ExplorerOptions options : PlanRuns(engine_case, model, effort)) {
        if (unhit.empty()) return;
        options.max_depth = 1;
        for (const std::string& point : Explorer(options).Run().crash_points) unhit.erase(point);
      }
    }
  }
  EXPECT_TRUE(unhit.empty()) << "crash points that no run hits: " << absl::StrJoin(unhit, ", ");
}

}  // namespace
}  // namespace lodgekv::test
