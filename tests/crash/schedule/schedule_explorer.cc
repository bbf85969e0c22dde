#include "tests/crash/schedule/schedule_explorer.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "index/pmem/testing/silent_tracer.h"
#include "tests/crash/schedule/strategies.h"
#include "tests/support/engine_calls.h"

namespace lodgekv::test {
namespace {

// For exhaustive search, threads are switched only where it can matter to another thread: a store
// matters to other threads, or for a crash, at the fence or publication after it.
constexpr uint32_t kFewPoints = ~(BitOf(PointKind::kStore) | BitOf(PointKind::kFlush));
// The steps of a program are counted in one schedule; other schedules may take more.
constexpr uint64_t kLongerByPercent = 120;
// How many schedules of a smaller program decide whether it fails.
constexpr unsigned kSchedulesOfShrunk = 150;
// A tree that does not fit is drawn again, up to so often.
constexpr unsigned kTries = 20;
constexpr unsigned kThreadsBehindCrash = 2;
// While a program that fails after a crash is reduced, more images are continued.
constexpr unsigned kContinueOneInOfShrunk = 3;

}  // namespace

ScheduleExplorer::ScheduleExplorer(const ScheduleOptions& options, Scheduler& scheduler)
    : shared_{.options = options,
              .engine_options = OptionsFor(options.engine_case),
              .program = {},
              .hosts_threads = false,
              .result = {},
              .seen = {},
              .moves = [this] { watchdog_.Progress(); },
              .where = [this] { return Where(); }},
      scheduler_(scheduler),
      scheduler_behind_crash_(kThreadsBehindCrash, kGuests),
      third_life_(shared_, nullptr, nullptr),
      second_life_(shared_, &scheduler_behind_crash_, &third_life_),
      run_(shared_, &scheduler, &second_life_),
      tree_(options.memory_bytes),
      watchdog_([this] { return Locate(); }) {}

ScheduleExplorer::~ScheduleExplorer() {
  scheduler_.ignores_epochs = scheduler_.ignores_mutexes = false;
  scheduler_.on_stuck = nullptr;
}

void ScheduleExplorer::Attend(Scheduler& scheduler) {
  scheduler.ignores_epochs = shared_.options.fault.kind == Fault::Kind::kIgnoreEpochs;
  scheduler.ignores_mutexes = shared_.options.fault.kind == Fault::Kind::kIgnoreMutexes;
  scheduler.on_stuck = [this](const std::string& what) {
    std::fprintf(stderr, "%s\n  %s\n", what.c_str(), Locate().c_str());
    std::abort();
  };
}

// --- programs ---

// Builds the tree of shared_.program, and an empty history. False: it does not fit into the pool.
bool ScheduleExplorer::MakeTree(absl::FunctionRef<void(Engine&)> complete) {
  const EngineCase& engine_case = shared_.options.engine_case;
  shared_.engine_options = OptionsFor(engine_case, shared_.program.engine_options);
  shared_.seen.clear();
  tree_.FillWithGarbage(TestSeed());
  const auto pool =
      pmem::Pool::CreateArena(ArenaOf(shared_, tree_, nullptr), IdentityOf(engine_case, number_));
  if (!pool.ok()) throw std::runtime_error(pool.status().ToString());
  pmem::SilentTracer tracer;  // with it the tree's space is used again at once
  std::string problem;
  {
    const OpenPool open = OpenScheduled(shared_, tree_, &tracer, &problem);
    if (!problem.empty()) throw std::runtime_error(problem);
    for (const Step& step : shared_.program.warm_up) {
      const std::vector<WriteOp> ops = step.Ops();
      std::vector<WriteResult> results(ops.size());
      if (open.engine->Write(ops, results, step.Options()) == Outcome::kPoolFull) return false;
    }
  }
  const ArenaMemory memory = tree_.Copy();
  const OpenPool open = OpenScheduled(shared_, memory, &tracer, &problem);
  if (!problem.empty()) throw std::runtime_error(problem);
  complete(*open.engine);
  history_ = std::make_unique<ConcurrentHistory>(shared_.options.engine_case, shared_.program,
                                                 *open.engine);
  return true;
}

void ScheduleExplorer::Draw(const ProgramMixture& mixture) {
  Random random(absl::StrCat("program ", shared_.options.engine_case.Name(), " ",
                             ModelName(shared_.options.model), " ", std::string(mixture.name)),
                number_);
  for (unsigned i = 0; i < kTries; ++i) {
    ProgramMaker maker(shared_.options.engine_case, mixture, random);
    shared_.program = maker.MakeTree();
    const bool fits = MakeTree([&](Engine& engine) {
      std::map<std::string, uint64_t, std::less<>> versions;
      for (const Pair& pair : ScanAll(engine, {.now_unix_ms = kRunNow})) {
        versions[pair.key] = pair.version;
      }
      const auto version_of = [&](std::string_view key) {
        const auto it = versions.find(key);
        return it == versions.end() ? 0 : it->second;
      };
      maker.AddCalls(version_of, &shared_.program);
    });
    if (fits) return;
  }
  throw std::runtime_error("no tree of this mixture fits: " + std::string(mixture.name));
}

ScheduleResult ScheduleExplorer::Run(const ProgramMixture& mixture, uint64_t number,
                                     const Plan& plan, std::optional<uint64_t> only) {
  Attend(scheduler_);
  Attend(scheduler_behind_crash_);
  shared_.result = {};
  number_ = number;
  // In place freed space is used again within the same call, which few schedules of a background
  // thread come to; and only those show what such a thread does to others.
  shared_.hosts_threads = number % 2 == 1;
  schedule_ = 0;
  Draw(mixture);
  ++shared_.result.programs;
  RunRandom(plan, only);
  RunExhaustive(plan, only);
  if (shared_.result.failure && shared_.options.shrinks) Shrink(plan);
  shared_.result.pool_full = history_->pool_full();
  return std::exchange(shared_.result, {});
}

// The first schedule, without a switch, gives the length of the program.
void ScheduleExplorer::RunRandom(const Plan& plan, std::optional<uint64_t> only) {
  uint64_t length = 0;
  way_ = "random priorities";
  for (unsigned i = 0; i < plan.random && !shared_.result.failure; ++i, ++schedule_) {
    const bool wanted = !only || *only == schedule_;
    if (!wanted && i > 0) continue;
    if (i == 0) {
      OneAfterTheOther strategy(number_ % 2 == 1);
      RunSchedule(strategy, kAllPoints, wanted);
      length = scheduler_.run().steps * kLongerByPercent / 100;
      continue;
    }
    RandomPriorities strategy(Random("priorities", number_ << 32 | schedule_), plan.depth, length);
    RunSchedule(strategy, kAllPoints, true);
  }
}

void ScheduleExplorer::RunExhaustive(const Plan& plan, std::optional<uint64_t> only) {
  way_ = "all schedules";
  BoundedExhaustive strategy(plan.preemptions);
  exhaustive_ = &strategy;
  for (uint64_t i = 0; i < plan.exhaustive_up_to && !shared_.result.failure; ++schedule_) {
    RunSchedule(strategy, kFewPoints, !only || *only == schedule_);
    if (!strategy.repeats()) ++i;
    if (!strategy.Next()) {
      ++shared_.result.exhausted;
      break;
    }
    quiet_until_ = only ? 0 : strategy.first_new_choice();
  }
  exhaustive_ = nullptr;
  quiet_until_ = 0;
}

// --- a failure ---

// Removes calls and warm-up steps one by one as long as some schedule of the rest still fails.
void ScheduleExplorer::Shrink(const Plan& plan) {
  const std::string first = *std::exchange(shared_.result.failure, std::nullopt);
  const bool behind_crash = shared_.result.crashes > 0;
  const unsigned one_in = shared_.options.continue_one_in;
  if (behind_crash) shared_.options.continue_one_in = std::min(one_in, kContinueOneInOfShrunk);
  std::optional<std::string> smaller;
  const auto try_without = [&](auto leave_out) {
    const Program kept = shared_.program;
    leave_out(&shared_.program);
    if (std::optional<std::string> failure = FindFailure(plan)) {
      smaller = std::move(failure);
      return true;
    }
    shared_.program = kept;
    return false;
  };
  const auto try_each = [&](auto list_of) {
    for (size_t i = list_of(&shared_.program)->size(); i-- > 0;) {
      try_without(
          [&](Program* p) { list_of(p)->erase(list_of(p)->begin() + static_cast<ptrdiff_t>(i)); });
    }
  };
  (void)try_without([](Program* p) { p->engine_options.clear(); });
  for (size_t thread = 0; thread < shared_.program.threads.size(); ++thread) {
    try_each([&](Program* p) { return &p->before[thread]; });
    try_each([&](Program* p) { return &p->threads[thread]; });
  }
  for (size_t i = 0; behind_crash && i < shared_.program.after.size(); ++i) {
    for (size_t thread = 0; thread < shared_.program.after[i].size(); ++thread) {
      try_each([&](Program* p) { return &p->after[i][thread]; });
    }
  }
  try_each([](Program* p) { return &p->warm_up; });
  shared_.options.continue_one_in = one_in;
  shared_.result.failure = absl::StrCat(
      first, smaller ? "\n\n  A smaller program that fails (its schedule has no number):\n  " : "",
      smaller.value_or(""));
}

std::optional<std::string> ScheduleExplorer::FindFailure(const Plan& plan) {
  if (!MakeTree([](Engine&) {})) return {};
  way_ = "shrunk";
  uint64_t length = 0;
  for (unsigned i = 0; i < kSchedulesOfShrunk && !shared_.result.failure; ++i) {
    if (i == 0) {
      OneAfterTheOther strategy(number_ % 2 == 1);
      RunSchedule(strategy, kAllPoints, true);
      length = scheduler_.run().steps * kLongerByPercent / 100;
      continue;
    }
    RandomPriorities strategy(Random("shrunk", i), plan.depth, length);
    RunSchedule(strategy, kAllPoints, true);
  }
  return std::exchange(shared_.result.failure, std::nullopt);
}

// --- a schedule ---

void ScheduleExplorer::RunSchedule(Strategy& strategy, uint32_t kinds, bool counts) {
  watchdog_.Progress();
  history_->Restart();
  run_.Begin(tree_.span(), *history_, number_ << 32 | schedule_);
  if (shared_.program.has_before()) {
    OneAfterTheOther in_turns;
    run_.Make(shared_.program.before, in_turns, 0);
  }
  if (counts && exhaustive_ != nullptr) {
    run_.StartDrawing([this] { return exhaustive_->choices_made() < quiet_until_; });
  } else if (counts) {
    run_.StartDrawing();
  }
  run_.Make(shared_.program.threads, strategy, kinds);
  run_.End();
  ScheduleResult& result = shared_.result;
  result.fault_happened |= scheduler_.ignores_epochs || scheduler_.ignores_mutexes;
  if (!counts) return;
  const Scheduler::Run& run = scheduler_.run();
  if (exhaustive_ == nullptr || !exhaustive_->repeats()) ++result.schedules;
  result.steps += run.steps;
  result.switches += run.switches.size();
  for (size_t i = 0; i < run.points.size(); ++i) result.points[i] += run.points[i];
}

// For a watchdog on another thread.
std::string ScheduleExplorer::Locate() const {
  const ScheduledRun* run = shared_.current_run.load();
  return absl::StrCat(run == nullptr ? "" : absl::StrCat(run->Locate(), "\n  "), Where());
}

std::string ScheduleExplorer::Where() const {
  std::string options;
  for (const auto& [name, value] : shared_.program.engine_options) {
    absl::StrAppend(&options, " ", name, "=", value);
  }
  return absl::StrCat(shared_.program.Describe(), "\n  engine ", shared_.options.engine_case.Name(),
                      ", model ", ModelName(shared_.options.model), ", options", options, ", ",
                      way_, ", run ", shared_.program.name, "/", number_, "/", schedule_, "; ",
                      SeedNote());
}

}  // namespace lodgekv::test
