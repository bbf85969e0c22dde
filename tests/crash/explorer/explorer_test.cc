// Every persistent engine, in each key format, under both crash models, through all workloads.
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <iostream>
#include <map>
#include <stdexcept>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/crash/canaries/canaries.h"
#include "tests/crash/explorer/plan.h"
#include "tests/crash/explorer/replay.h"
#include "tests/crash/lab/case_name.h"

namespace lodgekv::test {
namespace {

// Some millions of images of each engine, in minutes of processor time.
constexpr unsigned kRunsOfEachWorkload = 2;

// Rates are per second of processor time, so that a busy machine does not change them.
double CpuSeconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// LODGEKV_CRASH_RUN=WORKLOAD/RUN, as a failure prints it, repeats one run; WORKLOAD all its runs.
bool IsWanted(const ExplorerOptions& options) {
  const char* wanted = std::getenv("LODGEKV_CRASH_RUN");
  if (wanted == nullptr) return true;
  const std::string name(options.mixture.name);
  return name == wanted || absl::StrFormat("%s/%d", name, options.run) == wanted;
}

// The commands that repeat a failed run, and the shortest sequence with the same failure.
std::string Repeat(const ExplorerOptions& options, const ExplorerResult& result) {
  const std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  const char* canary = std::getenv("LODGEKV_CRASH_CANARY");
  const std::string run = absl::StrFormat(
      "LODGEKV_TEST_SEED=%d LODGEKV_CRASH_RUN=%s/%d LODGEKV_TEST_SCALE=%d%s", TestSeed(),
      std::string(options.mixture.name), options.run, options.run / kRunsOfEachWorkload + 1,
      canary == nullptr ? "" : absl::StrCat(" LODGEKV_CRASH_CANARY='", canary, "'"));
  const std::string program = absl::StrFormat(" crash_explorer_test --gtest_filter='*%s'\n",
                                              test.substr(test.find('/') + 1));
  std::string text = absl::StrCat("\nthis run alone: ", run, program);
  if (result.shortest.empty()) return text;
  return absl::StrCat(text, "the shortest sequence alone: ", run, " LODGEKV_CRASH_SCRIPT='",
                      result.shortest, "'", program);
}

// LODGEKV_CRASH_SCRIPT='...' runs only that script, in the pool of the wanted run.
ExplorerResult RunOrReplay(const ExplorerOptions& options) {
  const char* script = std::getenv("LODGEKV_CRASH_SCRIPT");
  if (script == nullptr) return Explorer(options).Run();
  Replay replay(options);
  ExplorerResult result;
  result.script = ParseScript(script);
  if (const auto failure = replay.Run(result.script, Replay::Way::kExactly, 0)) {
    result.failure =
        absl::StrCat(failure->what, "\n", DescribeScript(failure->script), failure->lines);
  }
  result.images = replay.images();
  return result;
}

// LODGEKV_CRASH_CANARY='PROTOCOL: NAME' makes the mistake of that row of tests/engines.
Fault WantedFault(const EngineInfo& engine) {
  const char* wanted = std::getenv("LODGEKV_CRASH_CANARY");
  if (wanted == nullptr) return {};
  for (const Canary& canary : CanariesOf(engine.name)) {
    if (absl::StrCat(std::string(canary.group), ": ", std::string(canary.name)) == wanted) {
      return canary.fault;
    }
  }
  throw std::invalid_argument(
      absl::StrCat("LODGEKV_CRASH_CANARY is '", wanted, "', which is no canary of engine ",
                   std::string(engine.name), " ('PROTOCOL: NAME', as crash_canary_test prints)"));
}

// Totals of the program by engine.
class Totals : public ::testing::Environment {
 public:
  static void Add(const EngineCase& engine_case, const ExplorerResult& result, double seconds) {
    auto& [total, total_seconds] = ByEngine()[std::string(engine_case.engine->name)];
    total.Add(result);
    total_seconds += seconds;
  }
  void TearDown() override {
    for (const auto& [engine, total] : ByEngine()) {
      std::cout << absl::StreamFormat(
          "%s: %d images in all, %d of them nested, in %.0f seconds of processor time: %.0f images "
          "a second\n",
          engine, total.first.images, total.first.nested_images, total.second,
          static_cast<double>(total.first.images) / total.second);
    }
  }

 private:
  static std::map<std::string, std::pair<ExplorerResult, double>>& ByEngine() {
    static std::map<std::string, std::pair<ExplorerResult, double>> totals;
    return totals;
  }
};
const auto* const kTotals = ::testing::AddGlobalTestEnvironment(new Totals);

using Parameter = std::tuple<EngineCase, CrashModel>;

class EveryImageTest : public ::testing::TestWithParam<Parameter> {};

TEST_P(EveryImageTest, HoldsWhatWasAcknowledged) {
  const auto& [engine_case, model] = GetParam();
  Effort effort;
  effort.runs = static_cast<unsigned>(Scaled(kRunsOfEachWorkload));
  const double start = CpuSeconds();
  ExplorerResult total;
  unsigned failures = 0;
  for (ExplorerOptions& options : PlanRuns(engine_case, model, effort)) {
    if (!IsWanted(options)) continue;
    options.fault = WantedFault(*engine_case.engine);
    ExplorerResult result = RunOrReplay(options);
    EXPECT_FALSE(result.failure.has_value()) << *result.failure << Repeat(options, result);
    failures += result.failure.has_value() ? 1 : 0;
    total.Add(result);
    if (failures == 3) break;
  }
  const double seconds = CpuSeconds() - start;
  std::cout << absl::StreamFormat(
      "%s, %s: %d images (%d of them nested, %d continued) at %d positions (%d with all images), "
      "%d "
      "operations; %.0f images a second of processor time\n",
      engine_case.Name(), ModelName(model), total.images, total.nested_images, total.continued,
      total.positions, total.exhaustive_positions, total.steps,
      static_cast<double>(total.images) / seconds);
  Totals::Add(engine_case, total, seconds);
  if (std::getenv("LODGEKV_CRASH_SCRIPT") != nullptr || failures > 0) return;
  EXPECT_GT(total.images, total.positions);
  EXPECT_GT(total.nested_images, 0U);
}

INSTANTIATE_TEST_SUITE_P(Engines, EveryImageTest,
                         ::testing::Combine(::testing::ValuesIn(PersistentCases()),
                                            ::testing::Values(CrashModel::kLinePrefix,
                                                              CrashModel::kTornWords)),
                         CrashCaseName());

}  // namespace
}  // namespace lodgekv::test
