// Every persistent engine, in each key format, under both crash models: programs of two and three
// threads under a deterministic scheduler.
#include <gtest/gtest.h>

#include <charconv>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "tests/crash/lab/case_name.h"
#include "tests/crash/schedule/schedule_plan.h"

namespace lodgekv::test {
namespace {

double CpuSeconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// LODGEKV_SCHEDULE=MIXTURE/PROGRAM/SCHEDULE, as a failure prints it, repeats one schedule.
struct Wanted {
  std::string mixture;
  uint64_t program = 0;
  uint64_t schedule = 0;

  static std::optional<Wanted> FromEnvironment() {
    const char* text = std::getenv("LODGEKV_SCHEDULE");
    if (text == nullptr) return {};
    const std::vector<std::string> parts = absl::StrSplit(text, '/');
    Wanted wanted;
    if (parts.size() != 3 || !Parse(parts[1], &wanted.program) ||
        !Parse(parts[2], &wanted.schedule)) {
      throw std::invalid_argument(
          absl::StrCat("LODGEKV_SCHEDULE is '", text, "', it must be MIXTURE/PROGRAM/SCHEDULE"));
    }
    wanted.mixture = parts[0];
    return wanted;
  }
  static bool Parse(const std::string& text, uint64_t* number) {
    const char* end = text.data() + text.size();
    return std::from_chars(text.data(), end, *number) == std::from_chars_result{end, {}};
  }
};

std::string Repeat(const std::string& failure) {
  const std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  const size_t at = failure.find(", run ") + 2;
  const std::string run = failure.substr(at + 4, failure.find(';', at) - at - 4);
  return absl::StrFormat(
      "\nthis schedule alone: LODGEKV_TEST_SEED=%d LODGEKV_SCHEDULE=%s crash_schedule_test "
      "--gtest_filter='*%s'\n",
      TestSeed(), run, test.substr(test.find('/') + 1));
}

class Totals : public ::testing::Environment {
 public:
  static void Add(const EngineCase& engine_case, const ScheduleResult& result, double seconds) {
    auto& [total, total_seconds] = ByEngine()[std::string(engine_case.engine->name)];
    total.Add(result);
    total_seconds += seconds;
  }
  // At least 100,000, unless only a part was requested.
  void TearDown() override {
    const bool all = ::testing::GTEST_FLAG(filter) == "*" &&
                     !Wanted::FromEnvironment().has_value() && kSanitizerSlowdown == 1;
    for (const auto& [engine, of_engine] : ByEngine()) {
      const auto& [total, seconds] = of_engine;
      std::cout << absl::StreamFormat(
          "%s: %d schedules of %d programs in all (%d programs with every schedule), %d images, %d "
          "of them nested, %d lived on, %d different, in %.0f seconds of processor time\n",
          engine, total.schedules, total.programs, total.exhausted, total.images + total.nested,
          total.nested, total.continued, total.recoveries, seconds);
      for (size_t kind = 1; kind < total.points.size(); ++kind) {
        const std::string_view name = PointName(static_cast<PointKind>(kind));
        std::cout << absl::StreamFormat("  %d switch points of kind: %s\n", total.points[kind],
                                        std::string(name));
        EXPECT_TRUE(!all || total.points[kind] > 0) << "no thread ever came to a " << name;
      }
      EXPECT_GE(total.schedules, all ? 100'000U : 0U);
      EXPECT_GE(total.nested, all ? total.images / 20 : 0U) << "too few images are lived on";
    }
  }

 private:
  static std::map<std::string, std::pair<ScheduleResult, double>>& ByEngine() {
    static std::map<std::string, std::pair<ScheduleResult, double>> totals;
    return totals;
  }
};
const auto* const kTotals = ::testing::AddGlobalTestEnvironment(new Totals);

using Parameter = std::tuple<EngineCase, CrashModel>;

class EveryScheduleTest : public ::testing::TestWithParam<Parameter> {};

TEST_P(EveryScheduleTest, IsDurablyLinearizable) {
  const auto& [engine_case, model] = GetParam();
  const auto wanted = Wanted::FromEnvironment();
  const double start = CpuSeconds();
  Scheduler scheduler(3, kGuests);
  ScheduleOptions options;
  options.engine_case = engine_case;
  options.model = model;
  options.shrinks = true;
  ScheduleExplorer explorer(options, scheduler);
  ScheduleResult total;
  unsigned failures = 0;
  for (const PlannedPrograms& planned : PlanPrograms(engine_case)) {
    if (wanted && planned.mixture.name != wanted->mixture) continue;
    const uint64_t first = wanted ? wanted->program : 0;
    const uint64_t end = wanted ? first + 1 : Scaled(planned.programs);
    const double begun = CpuSeconds();
    ScheduleResult of_mixture;
    for (uint64_t number = first; number < end && failures < 3; ++number) {
      std::optional<uint64_t> only;
      if (wanted) only = wanted->schedule;
      const ScheduleResult result = explorer.Run(planned.mixture, number, planned.plan, only);
      if (result.failure) ADD_FAILURE() << *result.failure << Repeat(*result.failure);
      failures += result.failure ? 1 : 0;
      of_mixture.Add(result);
    }
    std::cout << absl::StreamFormat(
        "  %-10s %6d schedules of %4d programs (%d with every schedule), %.1f switches each, %d "
        "images and %d nested, %d different, %d times full; %.1f s\n",
        std::string(planned.mixture.name), of_mixture.schedules, of_mixture.programs,
        of_mixture.exhausted,
        static_cast<double>(of_mixture.switches) / static_cast<double>(of_mixture.schedules),
        of_mixture.images, of_mixture.nested, of_mixture.recoveries, of_mixture.pool_full,
        CpuSeconds() - begun);
    total.Add(of_mixture);
  }
  Totals::Add(engine_case, total, CpuSeconds() - start);
}

// A schedule run alone, in new threads, is the same as among others.
TEST_P(EveryScheduleTest, IsTheSameAlone) {
  if (Wanted::FromEnvironment()) GTEST_SKIP() << "one schedule was asked for";
  constexpr uint64_t kSchedules = 6;
  ScheduleOptions options;
  options.engine_case = std::get<EngineCase>(GetParam());
  options.model = std::get<CrashModel>(GetParam());
  for (PlannedPrograms& planned : PlanPrograms(options.engine_case)) {
    planned.plan.random = kSchedules;
    planned.plan.exhaustive_up_to = 0;
    const auto run = [&](std::optional<uint64_t> only) {
      Scheduler scheduler(3, kGuests);
      ScheduleExplorer explorer(options, scheduler);
      return explorer.Run(planned.mixture, 7, planned.plan, only);
    };
    const ScheduleResult together = run({});
    ScheduleResult alone;
    for (uint64_t i = 0; i < kSchedules; ++i) alone.Add(run(i));
    EXPECT_EQ(alone.schedules, together.schedules);
    EXPECT_EQ(alone.steps, together.steps) << planned.mixture.name;
    EXPECT_EQ(alone.switches, together.switches) << planned.mixture.name;
    EXPECT_EQ(alone.images, together.images) << planned.mixture.name;
    EXPECT_EQ(alone.points, together.points) << planned.mixture.name;
    EXPECT_GE(alone.continued, together.continued) << planned.mixture.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, EveryScheduleTest,
                         ::testing::Combine(::testing::ValuesIn(ScheduleCases()),
                                            ::testing::Values(CrashModel::kLinePrefix,
                                                              CrashModel::kTornWords)),
                         CrashCaseName());

}  // namespace
}  // namespace lodgekv::test
