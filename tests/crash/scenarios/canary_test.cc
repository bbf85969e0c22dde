// Every canary must be caught, every crash point must be hit.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tests/crash/canaries/canaries.h"
#include "tests/crash/explorer/plan.h"
#include "tests/crash/lab/crash_points.h"
#include "tests/crash/lab/high_numbers.h"
#include "tests/crash/lab/isolated.h"
#include "tests/crash/scenarios/batch_in_flight.h"
#include "tests/crash/scenarios/bulk_load_scenario.h"
#include "tests/crash/scenarios/file_scenario.h"
#include "tests/crash/scenarios/generations_scenario.h"
#include "tests/crash/scenarios/journal_scenario.h"
#include "tests/crash/scenarios/kill_then_cut.h"
#include "tests/crash/scenarios/pool_scenario.h"
#include "tests/crash/scenarios/released_logs.h"

namespace lodgekv::test {
namespace {

// Most are caught by a few hundred; the rarest mistake is caught by one image in half a million.
constexpr uint64_t kImagesPerCanary = 3'000'000;
constexpr uint64_t kQuietImages = 400'000;
constexpr uint64_t kJournalRuns = 30;
constexpr uint64_t kJournalThreadRuns = 1000;  // some 10 suffice
constexpr uint64_t kFileRuns = 6;
// Many times what so many images take (some 100): a mistake that makes the engine hang is caught by
// it, and one that is missed on a slow machine is not taken for such a mistake.
constexpr unsigned kSecondsPerCanary = 300 * kSanitizerSlowdown;
constexpr CrashModel kModels[] = {CrashModel::kLinePrefix, CrashModel::kTornWords};

std::vector<EngineCase> CasesOf(const EngineInfo& engine, In in) {
  std::vector<EngineCase> cases = PersistentCases();
  std::erase_if(cases, [&](const EngineCase& engine_case) {
    // Buffers are drawn, or among a canary's options.
    return engine_case.engine != &engine || engine_case.buffered ||
           (in == In::kFixed64 && !engine_case.fixed64()) ||
           (in == In::kBytes && engine_case.fixed64());
  });
  // Small nodes first: rare steps are frequent there.
  std::stable_sort(cases.begin(), cases.end(), [](const EngineCase& a, const EngineCase& b) {
    return a.small_nodes > b.small_nodes;
  });
  return cases;
}

bool Applies(const Canary& canary, CrashModel model) {
  return canary.under == Under::kBoth ||
         (canary.under == Under::kLinePrefix) == (model == CrashModel::kLinePrefix);
}

// The runs of all cases in rotation, so that easy mistakes are caught soon.
std::vector<ExplorerOptions> Hunt(const EngineInfo& engine, const Canary& canary,
                                  CrashModel model) {
  Effort effort{.runs = canary.workload.empty() ? 4U : 100U,
                .exhaustive_up_to = 32,
                .samples = 4,
                .continue_one_in = 60};
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

std::string TryBatches(const EngineInfo& engine, const Canary& canary, CrashModel model) {
  BatchInFlight sum;
  for (const EngineCase& engine_case : CasesOf(engine, canary.in)) {
    const BatchInFlight seen = RunBatchInFlightScenario(engine_case, model, canary.fault);
    sum.images += seen.images;
    sum.with_part += seen.with_part;
  }
  if (sum.with_part == 0) return absl::StrFormat("MISSED in %d images", sum.images);
  return absl::StrFormat("caught %7d images  of them %d with a part of a batch in flight",
                         sum.images, sum.with_part);
}

std::map<std::string, std::string> GivenBy(const Canary& canary) {
  std::map<std::string, std::string> given;
  const std::vector<std::string> options =
      absl::StrSplit(std::string(canary.options), ' ', absl::SkipEmpty());
  for (const std::string& option : options) {
    const size_t equals = option.find('=');
    given.emplace(option.substr(0, equals), option.substr(equals + 1));
  }
  return given;
}

std::string TryKills(const EngineInfo& engine, const Canary& canary, CrashModel model) {
  uint64_t images = 0;
  const std::map<std::string, std::string> given = GivenBy(canary);
  for (const EngineCase& engine_case : CasesOf(engine, canary.in)) {
    const KillThenCut seen = RunKillThenCutScenario(engine_case, model, canary.fault, given);
    images += seen.images;
    if (!seen.problem) continue;
    return absl::StrFormat("caught %7d images  %s", images, seen.problem->substr(0, 90));
  }
  return absl::StrFormat("MISSED in %d images", images);
}

std::string TryLoads(const EngineInfo& engine, const Canary& canary, CrashModel model) {
  uint64_t images = 0;
  for (const EngineCase& engine_case : CasesOf(engine, canary.in)) {
    const BulkLoadOutcome seen = RunBulkLoadScenario(engine_case, model, canary.fault);
    images += seen.images;
    if (!seen.problem) continue;
    return absl::StrFormat("caught %7d images  %s", images, seen.problem->substr(0, 90));
  }
  return absl::StrFormat("MISSED in %d images", images);
}

std::string TryLogs(const Canary& canary, CrashModel model) {
  const ReleasedLogs seen = RunReleasedLogsScenario(model, canary.fault);
  if (seen.with_old_logs == 0) return absl::StrFormat("MISSED in %d images", seen.images);
  return absl::StrFormat("caught %7d images  of them %d with old logs in a free chunk", seen.images,
                         seen.with_old_logs);
}

std::string TryPool(const Canary& canary, CrashModel model) {
  const PoolOutcome seen = RunPoolScenario(model, canary.fault);
  if (!seen.problem) return absl::StrFormat("MISSED in %d images", seen.images);
  return absl::StrFormat("caught %7d images  %s", seen.images, seen.problem->substr(0, 90));
}

std::string TryGenerations(const Canary& canary, CrashModel model) {
  const GenerationsOutcome seen = RunGenerationsScenario(model, canary.fault);
  if (!seen.problem) return absl::StrFormat("MISSED in %d images", seen.images);
  return absl::StrFormat("caught %7d images  %s", seen.images, seen.problem->substr(0, 90));
}

std::string TryJournal(const Canary& canary) {
  const JournalOutcome seen = canary.by == By::kJournalThreads
                                  ? RunJournalScenarioOfThreads(canary.fault, kJournalThreadRuns)
                                  : RunJournalScenario(canary.fault, kJournalRuns);
  if (!seen.problem) {
    return absl::StrFormat("MISSED in %d images; the mistake was %s", seen.images,
                           seen.fault_happened ? "made" : "never made");
  }
  return absl::StrFormat("caught %7d images  %s", seen.images, seen.problem->substr(0, 90));
}

std::string TryFiles(const EngineInfo& engine, const Canary& canary) {
  uint64_t images = 0;
  for (const EngineCase& engine_case : CasesOf(engine, canary.in)) {
    const FileOutcome seen = RunFileScenario(engine_case, canary.fault, kFileRuns);
    images += seen.images;
    if (!seen.problem) continue;
    return absl::StrFormat("caught %7d images  %s", images, seen.problem->substr(0, 90));
  }
  return absl::StrFormat("MISSED in %d images", images);
}

// Returns "caught ...", or how it was missed.
std::string HuntCanary(const EngineInfo& engine, const Canary& canary, CrashModel model) {
  if (canary.by == By::kReleasedLogs) return TryLogs(canary, model);
  if (canary.by == By::kBatchInFlight) return TryBatches(engine, canary, model);
  if (canary.by == By::kKillThenCut) return TryKills(engine, canary, model);
  if (canary.by == By::kBulkLoad) return TryLoads(engine, canary, model);
  if (canary.by == By::kPool) return TryPool(canary, model);
  if (canary.by == By::kJournal || canary.by == By::kJournalThreads) return TryJournal(canary);
  if (canary.by == By::kFile) return TryFiles(engine, canary);
  const std::map<std::string, std::string> given = GivenBy(canary);
  ExplorerResult total;
  for (ExplorerOptions options : Hunt(engine, canary, model)) {
    if (!canary.workload.empty() && options.mixture.name != canary.workload) continue;
    for (const auto& [name, value] : given) options.engine_options[name] = value;
    options.fault = canary.fault;
    options.shrink = false;
    if (canary.by == By::kHighNumbers) options.first_sequence = kLastNumbers;
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

class CanariesOfEngineTest : public ::testing::TestWithParam<const EngineInfo*> {};

// The runs that catch canaries find nothing when there is no mistake.
TEST_P(CanariesOfEngineTest, WithoutOneNothingIsCaught) {
  for (const CrashModel model : kModels) {
    ExplorerResult total;
    for (ExplorerOptions options : Hunt(*GetParam(), {}, model)) {
      options.max_images = kQuietImages - total.images;
      total.Add(Explorer(options).Run());
      ASSERT_FALSE(total.failure.has_value()) << *total.failure;
      if (total.images >= kQuietImages) break;
    }
    std::cout << absl::StreamFormat("%-28s quiet  %7d images\n", ModelName(model), total.images);
    EXPECT_GE(total.images, kQuietImages);
  }
}

// What caught each class, for the table at the end.
using Catches = std::array<std::vector<std::string>, kBugClasses>;

// Plants one canary under one model; true when it is caught.
bool Throw(std::string_view where, const Canary& canary, CrashModel model,
           const std::function<std::string()>& hunt) {
  const IsolatedResult result = RunIsolated(kSecondsPerCanary, hunt);
  const std::string outcome =
      result.death.empty() ? result.report : absl::StrCat("caught  ", result.death);
  const bool caught = outcome.substr(0, 6) == "caught";
  std::cout << absl::StreamFormat("%-13s %-14s %-50s %s\n", std::string(canary.group),
                                  ModelName(model), std::string(canary.name), outcome);
  EXPECT_TRUE(caught) << where << ", " << canary.group << ": " << canary.name << ", "
                      << ModelName(model) << ": " << outcome << "; " << SeedNote();
  return caught;
}

void Note(const Canary& canary, std::string_view prefix, Catches* catches) {
  for (unsigned bug_class = 1; bug_class <= kBugClasses; ++bug_class) {
    if (!StandsFor(canary.bugs, bug_class)) continue;
    (*catches)[bug_class - 1].push_back(absl::StrCat(std::string(prefix), std::string(canary.group),
                                                     ": ", std::string(canary.name)));
  }
}

void ThrowAll(const EngineInfo& engine, std::span<const Canary> canaries, unsigned* missed,
              unsigned* count, Catches* catches) {
  for (const Canary& canary : canaries) {
    bool all = true;
    for (const CrashModel model : kModels) {
      if (!Applies(canary, model)) continue;
      const bool caught = Throw(absl::StrCat("engine ", std::string(engine.name)), canary, model,
                                [&] { return HuntCanary(engine, canary, model); });
      ++*(caught ? count : missed);
      all = all && caught;
    }
    if (all) Note(canary, "", catches);
  }
}

// Each class is caught by some canary, or cannot occur.
void PrintClasses(const EngineInfo& engine, const Catches& catches) {
  std::cout << "bug classes of engine " << engine.name << " and the pool:\n";
  for (unsigned bug_class = 1; bug_class <= kBugClasses; ++bug_class) {
    const std::vector<std::string>& by = catches[bug_class - 1];
    std::string outcome = absl::StrCat("caught by ", absl::StrJoin(by, "; "));
    if (by.empty()) {
      outcome = "NOBODY LOOKS FOR IT";
      for (const DoesNotApply& row : ClassesWithout(engine.name)) {
        if (row.bug_class == bug_class)
          outcome = absl::StrCat("does not apply: ", std::string(row.reason));
      }
    }
    std::cout << absl::StreamFormat("BC%-2d %s: %s\n", bug_class,
                                    std::string(BugClassName(bug_class)), outcome);
    EXPECT_NE(outcome, "NOBODY LOOKS FOR IT")
        << "BC" << bug_class << " (" << BugClassName(bug_class) << ") of engine " << engine.name
        << ": a row in tests/engines, or a reason why not";
  }
}

TEST_P(CanariesOfEngineTest, AreAllCaught) {
  const EngineInfo& engine = *GetParam();
  EXPECT_FALSE(CanariesOf(engine.name).empty())
      << "no canary is known for engine " << engine.name << ": list its in tests/engines/NAME.cc";
  unsigned count = 0;
  unsigned missed = 0;
  Catches catches;
  ThrowAll(engine, CanariesOf(engine.name), &missed, &count, &catches);
  ThrowAll(engine, PoolCanaries(), &missed, &count, &catches);
  // crash_schedule_canary_test shows that these are caught.
  for (const Canary& canary : ScheduleCanariesOf(engine.name)) {
    Note(canary, "schedules, ", &catches);
  }
  PrintClasses(engine, catches);
  std::cout << engine.name << ": " << count << " caught, " << missed << " missed\n";
}

// A class with a reason not to apply has no canary: otherwise one of the two is wrong.
TEST_P(CanariesOfEngineTest, OfClassesThatDoNotApplyThereAreNone) {
  const std::string_view engine = GetParam()->name;
  for (const DoesNotApply& row : ClassesWithout(engine)) {
    for (const auto canaries : {CanariesOf(engine), PoolCanaries(), ScheduleCanariesOf(engine)}) {
      for (const Canary& canary : canaries) {
        EXPECT_FALSE(StandsFor(canary.bugs, row.bug_class))
            << "BC" << row.bug_class << " of " << engine << ": " << canary.name;
      }
    }
  }
}

TEST(PoolTest, KeepsItsPromisesInEveryImage) {
  for (const CrashModel model : kModels) {
    const PoolOutcome seen = RunPoolScenario(model, {});
    EXPECT_EQ(seen.problem, std::nullopt) << ModelName(model) << "; " << SeedNote();
    std::cout << absl::StreamFormat("%-28s quiet  %7d images of the pool\n", ModelName(model),
                                    seen.images);
    EXPECT_GT(seen.images, 1000U);
  }
}

TEST(GenerationsTest, OneOfTwoIsFoundInEveryImage) {
  for (const CrashModel model : kModels) {
    const GenerationsOutcome seen = RunGenerationsScenario(model, {});
    EXPECT_EQ(seen.problem, std::nullopt) << ModelName(model) << "; " << SeedNote();
    std::cout << absl::StreamFormat("%-28s quiet  %7d images of generations, %d kills\n",
                                    ModelName(model), seen.images, seen.kills);
    EXPECT_GT(seen.images, 1000U);
    EXPECT_GT(seen.kills, 100U);
  }
}

// Of parts of index/node, which have a scenario of their own.
TEST(NodePartsTest, CanariesAreAllCaught) {
  for (const Canary& canary : NodePartCanaries()) {
    ASSERT_EQ(canary.by, By::kGenerations) << canary.name << ": no scenario plants it";
    for (const CrashModel model : kModels) {
      (void)Throw("node part", canary, model, [&] { return TryGenerations(canary, model); });
    }
  }
}

// A switch that no row names is never used; a row whose name is not in the sources tests nothing.
TEST(CanariesTest, AndSwitchesInTheSourcesAreTheSame) {
  const NamesInSources names = ReadNames(LODGEKV_INDEX_DIR);
  std::set<std::string, std::less<>> listed;
  const auto list = [&](std::span<const Canary> canaries) {
    for (const Canary& canary : canaries) {
      if (canary.fault.kind == Fault::Kind::kOrderByFences) continue;  // of the medium
      const std::string where(canary.fault.where);
      const bool asks = canary.fault.kind == Fault::Kind::kAsk;
      EXPECT_TRUE((asks ? names.canaries : names.crash_points).contains(where))
          << where << " is in no source";
      if (asks) listed.insert(where);
    }
  };
  list(PoolCanaries());
  list(NodePartCanaries());
  for (const EngineInfo* engine : AllPersistentEngines()) {
    list(CanariesOf(engine->name));
    for (const Canary& canary : ScheduleCanariesOf(engine->name)) {
      listed.insert(std::string(canary.fault.where));
    }
  }
  for (const std::string& name : names.canaries) {
    EXPECT_TRUE(listed.contains(name))
        << "no row of tests/engines or tests/crash/canaries/canaries.cc throws " << name;
  }
}

// The persistent engine that owns the crash point; empty for code that engines share.
std::string_view EngineOfPoint(std::string_view point) {
  for (const EngineInfo* engine : AllPersistentEngines()) {
    if (point.substr(0, point.find('.')) == engine->name) return engine->name;
  }
  return {};
}

// Runs what hits crash points until all of the engine's own are hit (empty: the shared ones).
void ExpectAllHit(std::string_view engine, const std::vector<EngineCase>& cases) {
  const NamesInSources names = ReadNames(LODGEKV_INDEX_DIR);
  std::set<std::string, std::less<>> unhit;
  for (const std::string& point : names.crash_points) {
    if (EngineOfPoint(point) == engine) unhit.insert(point);
  }
  ASSERT_FALSE(unhit.empty()) << "none found below " << LODGEKV_INDEX_DIR;
  for (const std::string& point : RunPoolScenario(CrashModel::kLinePrefix, {}).crash_points) {
    unhit.erase(point);
  }
  if (engine.empty()) {
    for (const std::string& point :
         RunGenerationsScenario(CrashModel::kLinePrefix, {}).crash_points) {
      unhit.erase(point);
    }
  }
  for (const EngineCase& engine_case : cases) {
    if (engine_case.engine->bulk_load == nullptr) continue;
    for (const std::string& point :
         RunBulkLoadScenario(engine_case, CrashModel::kLinePrefix, {}).crash_points) {
      unhit.erase(point);
    }
    break;
  }
  for (const std::string& point : RunFileScenario(cases.front(), {}, 2).crash_points) {
    unhit.erase(point);
  }
  const Effort effort{.runs = 2, .exhaustive_up_to = 1, .samples = 1, .continue_one_in = 30};
  for (const EngineCase& engine_case : cases) {
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

TEST_P(CanariesOfEngineTest, AndItsCrashPointsAreAllHit) {
  ExpectAllHit(GetParam()->name, CasesOf(*GetParam(), In::kAny));
}

// Engines in rotation: one alone seldom uses all shared parts.
TEST(CrashPointsTest, OfWhatEnginesShareAreAllHit) {
  std::vector<EngineCase> cases;
  for (size_t i = 0; i < PersistentCases().size(); ++i) {
    for (const EngineInfo* engine : AllPersistentEngines()) {
      const std::vector<EngineCase> of_engine = CasesOf(*engine, In::kAny);
      if (i < of_engine.size()) cases.push_back(of_engine[i]);
    }
  }
  ExpectAllHit("", cases);
}

INSTANTIATE_TEST_SUITE_P(Engines, CanariesOfEngineTest, ::testing::ValuesIn(AllPersistentEngines()),
                         [](const auto& engine) { return std::string(engine.param->name); });

}  // namespace
}  // namespace lodgekv::test
