#include "tests/crash/schedule_explorer.h"

#include <xxhash.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/crash/looking_tracer.h"
#include "tests/crash/strategies.h"
#include "tests/support/engine_calls.h"

namespace lodgekv::test {
namespace {

// Where all schedules are run, threads are switched where it can matter to another thread: a store
// counts for the others, or for a crash, at the fence or the publication behind it.
constexpr uint32_t kFewPoints = ~(BitOf(PointKind::kStore) | BitOf(PointKind::kFlush));
// The steps of a program are counted in one schedule; others may take more.
constexpr uint64_t kLongerByPercent = 120;
// Of one program: they are some hundred bytes each.
constexpr size_t kMostImagesKnown = 100'000;
// Whether a smaller program fails is asked of so many of its schedules.
constexpr unsigned kSchedulesOfShrunk = 150;
// A tree that does not fit is drawn again.
constexpr unsigned kTries = 20;

// Under the engine that makes the tree: with a tracer its space is used again at once.
class SilentTracer final : public pmem::Tracer {
 public:
  void OnStore(const void*, size_t, bool) override {}
  void OnFlush(const void*) override {}
  void OnFence() override {}
  void OnCrashPoint(std::string_view) override {}
  bool OnCanary(std::string_view) override { return false; }
};

void CopyInto(std::span<const std::byte> from, const ArenaMemory& to) {
  std::memcpy(to.span().data(), from.data(), from.size());
}

}  // namespace

void ScheduleResult::Add(const ScheduleResult& other) {
  programs += other.programs;
  schedules += other.schedules;
  exhausted += other.exhausted;
  steps += other.steps;
  switches += other.switches;
  positions += other.positions;
  images += other.images;
  recoveries += other.recoveries;
  pool_full += other.pool_full;
  for (size_t i = 0; i < points.size(); ++i) points[i] += other.points[i];
  crash_points.insert(other.crash_points.begin(), other.crash_points.end());
  fault_happened |= other.fault_happened;
  if (!failure) failure = other.failure;
}

ScheduleExplorer::ScheduleExplorer(const ScheduleOptions& options, Scheduler& scheduler)
    : options_(options),
      scheduler_(scheduler),
      engine_options_(OptionsFor(options.engine_case)),
      tree_(options.memory_bytes),
      memory_(options.memory_bytes),
      image_(options.memory_bytes),
      random_("schedule explorer"),
      watchdog_([this] { return Where(); }) {}

ScheduleExplorer::~ScheduleExplorer() {
  scheduler_.ignores_epochs = scheduler_.ignores_mutexes = false;
  scheduler_.on_stuck = nullptr;
}

// --- programs ---

pmem::Pool::ArenaOptions ScheduleExplorer::ArenaOf(const ArenaMemory& memory,
                                                   pmem::Tracer* tracer) const {
  pmem::Pool::ArenaOptions arena;
  arena.memory = memory.span();
  arena.chunk_bytes = options_.chunk_bytes;
  arena.strict_order = options_.model == CrashModel::kTornWords;
  arena.tracer = tracer;
  return arena;
}

OpenPool ScheduleExplorer::OpenEngine(const ArenaMemory& memory, pmem::Tracer* tracer,
                                      std::string* problem) {
  OpenPool open;
  auto pool = pmem::Pool::OpenArena(ArenaOf(memory, tracer));
  if (!pool.ok()) {
    *problem = absl::StrCat("it cannot be opened: ", pool.status().ToString());
    return open;
  }
  open.pool = *std::move(pool);
  EngineContext context;
  context.pool = open.pool.get();
  context.key_format = options_.engine_case.key_format;
  context.inline_pairs = options_.engine_case.inline_pairs;
  context.options = engine_options_;
  const EngineInfo& info = *options_.engine_case.engine;
  const bool created = open.pool->engine_created();
  RecoveryReport report;
  auto engine = created ? info.recover(context, &report) : info.create(context);
  if (!engine.ok()) {
    *problem = absl::StrCat("it cannot be opened: ", engine.status().ToString());
    return open;
  }
  if (!created) open.pool->MarkEngineCreated();
  open.engine = *std::move(engine);
  return open;
}

// Makes the tree of program_, and an empty history. False: it does not fit into the pool.
bool ScheduleExplorer::MakeTree(absl::FunctionRef<void(Engine&)> complete) {
  engine_options_ = OptionsFor(options_.engine_case, program_.engine_options);
  seen_.clear();
  tree_.FillWithGarbage(TestSeed());
  const auto pool =
      pmem::Pool::CreateArena(ArenaOf(tree_, nullptr), IdentityOf(options_.engine_case, number_));
  if (!pool.ok()) throw std::runtime_error(pool.status().ToString());
  SilentTracer tracer;
  std::string problem;
  {
    const OpenPool open = OpenEngine(tree_, &tracer, &problem);
    if (!problem.empty()) throw std::runtime_error(problem);
    for (const Step& step : program_.warm_up) {
      const std::vector<WriteOp> ops = step.Ops();
      std::vector<WriteResult> results(ops.size());
      if (open.engine->Write(ops, results, step.Options()) == Outcome::kPoolFull) return false;
    }
  }
  CopyInto(tree_.span(), memory_);
  const OpenPool open = OpenEngine(memory_, &tracer, &problem);
  if (!problem.empty()) throw std::runtime_error(problem);
  complete(*open.engine);
  history_ = std::make_unique<ConcurrentHistory>(options_.engine_case, program_, *open.engine);
  return true;
}

void ScheduleExplorer::Draw(const ProgramMixture& mixture) {
  Random random(absl::StrCat("program ", options_.engine_case.Name(), " ",
                             ModelName(options_.model), " ", std::string(mixture.name)),
                number_);
  for (unsigned i = 0; i < kTries; ++i) {
    ProgramMaker maker(options_.engine_case, mixture, random);
    program_ = maker.MakeTree();
    const bool fits = MakeTree([&](Engine& engine) {
      std::map<std::string, uint64_t, std::less<>> versions;
      for (const Pair& pair : ScanAll(engine, {.now_unix_ms = kRunNow})) {
        versions[pair.key] = pair.version;
      }
      const auto version_of = [&](std::string_view key) {
        const auto it = versions.find(key);
        return it == versions.end() ? 0 : it->second;
      };
      maker.AddCalls(version_of, &program_);
    });
    if (fits) return;
  }
  throw std::runtime_error("no tree of this mixture fits: " + std::string(mixture.name));
}

ScheduleResult ScheduleExplorer::Run(const ProgramMixture& mixture, uint64_t number,
                                     const Plan& plan, std::optional<uint64_t> only) {
  scheduler_.ignores_epochs = options_.fault.kind == Fault::Kind::kIgnoreEpochs;
  scheduler_.ignores_mutexes = options_.fault.kind == Fault::Kind::kIgnoreMutexes;
  scheduler_.on_stuck = [this](const std::string& what) {
    std::fprintf(stderr, "%s\n  %s\n", what.c_str(), Where().c_str());
    std::abort();
  };
  result_ = {};
  number_ = number;
  schedule_ = 0;
  Draw(mixture);
  ++result_.programs;
  RunRandom(plan, only);
  RunExhaustive(plan, only);
  if (result_.failure && options_.shrinks) Shrink(plan);
  result_.pool_full = history_->pool_full();
  return std::exchange(result_, {});
}

// The first schedule, without a switch, tells how long a program is.
void ScheduleExplorer::RunRandom(const Plan& plan, std::optional<uint64_t> only) {
  uint64_t length = 0;
  way_ = "random priorities";
  for (unsigned i = 0; i < plan.random && !result_.failure; ++i, ++schedule_) {
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
  for (uint64_t i = 0; i < plan.exhaustive_up_to && !result_.failure; ++schedule_) {
    RunSchedule(strategy, kFewPoints, !only || *only == schedule_);
    if (!strategy.repeats()) ++i;
    if (!strategy.Next()) {
      ++result_.exhausted;
      break;
    }
    quiet_until_ = only ? 0 : strategy.first_new_choice();
  }
  exhaustive_ = nullptr;
  quiet_until_ = 0;
}

// --- a failure ---

// Leaves calls and steps of the warm-up out, one after the other, as long as some schedule of what
// is left still fails.
void ScheduleExplorer::Shrink(const Plan& plan) {
  const std::string first = *std::exchange(result_.failure, std::nullopt);
  std::optional<std::string> smaller;
  const auto try_without = [&](auto leave_out) {
    const Program kept = program_;
    leave_out(&program_);
    if (std::optional<std::string> failure = FindFailure(plan)) {
      smaller = std::move(failure);
      return true;
    }
    program_ = kept;
    return false;
  };
  const auto try_each = [&](auto list_of) {
    for (size_t i = list_of(&program_)->size(); i-- > 0;) {
      try_without(
          [&](Program* p) { list_of(p)->erase(list_of(p)->begin() + static_cast<ptrdiff_t>(i)); });
    }
  };
  (void)try_without([](Program* p) { p->engine_options.clear(); });
  for (size_t thread = 0; thread < program_.threads.size(); ++thread) {
    try_each([&](Program* p) { return &p->before[thread]; });
    try_each([&](Program* p) { return &p->threads[thread]; });
  }
  try_each([](Program* p) { return &p->warm_up; });
  result_.failure = absl::StrCat(
      first, smaller ? "\n\n  A smaller program that fails (its schedule has no number):\n  " : "",
      smaller.value_or(""));
}

std::optional<std::string> ScheduleExplorer::FindFailure(const Plan& plan) {
  if (!MakeTree([](Engine&) {})) return {};
  way_ = "shrunk";
  uint64_t length = 0;
  for (unsigned i = 0; i < kSchedulesOfShrunk && !result_.failure; ++i) {
    if (i == 0) {
      OneAfterTheOther strategy(number_ % 2 == 1);
      RunSchedule(strategy, kAllPoints, true);
      length = scheduler_.run().steps * kLongerByPercent / 100;
      continue;
    }
    RandomPriorities strategy(Random("shrunk", i), plan.depth, length);
    RunSchedule(strategy, kAllPoints, true);
  }
  return std::exchange(result_.failure, std::nullopt);
}

// --- a schedule ---

void ScheduleExplorer::RunSchedule(Strategy& strategy, uint32_t kinds, bool counts) {
  watchdog_.Progress();
  random_ = Random("images", number_ << 32 | schedule_);
  CopyInto(tree_.span(), memory_);
  tracer_ = std::make_unique<ScheduledTracer>(memory_.span(), options_.fault);
  tracer_->before_fence = [this] { Look("before a fence"); };
  history_->Restart();
  std::string problem;
  looking_ = false;
  open_.emplace(OpenEngine(memory_, tracer_.get(), &problem));
  if (!problem.empty()) return Fail(problem, "");
  using Calls = std::vector<std::vector<Call>>;
  const auto bodies = [this](const Calls& calls) {
    std::vector<std::function<void()>> all;
    for (unsigned i = 0; i < calls.size(); ++i) {
      all.push_back([this, i, &calls] { RunThread(i, calls[i]); });
    }
    return all;
  };
  if (program_.has_before()) {
    OneAfterTheOther in_turns;
    scheduler_.Execute(bodies(program_.before), in_turns, 0);
  }
  looking_ = counts;
  const auto& run = scheduler_.Execute(bodies(program_.threads), strategy, kinds);
  if (!result_.failure) {
    position_ = "in the living engine at the end";
    const Observation living = history_->Observe(*open_->engine);
    if (const auto wrong = history_->Judge(living)) Fail(*wrong, "");
    history_->Note(living);
    Look("at the end");
  }
  looking_ = false;
  open_.reset();
  result_.fault_happened |=
      tracer_->fault_happened() || scheduler_.ignores_epochs || scheduler_.ignores_mutexes;
  const auto& points = tracer_->inner().crash_points();
  result_.crash_points.insert(points.begin(), points.end());
  if (!counts) return;
  if (exhaustive_ == nullptr || !exhaustive_->repeats()) ++result_.schedules;
  result_.steps += run.steps;
  result_.switches += run.switches.size();
  for (size_t i = 0; i < run.points.size(); ++i) result_.points[i] += run.points[i];
}

void ScheduleExplorer::RunThread(unsigned thread, const std::vector<Call>& calls) {
  for (const Call& call : calls) {
    if (result_.failure) return;
    const auto problem = history_->Make(*open_->engine, thread, call, [&] { tracer_->Returned(); });
    if (problem) {
      position_ = "in the answer of a call";
      return Fail(*problem, "");
    }
    Look("behind a call");
    Scheduler::Point(PointKind::kCall);
  }
}

// --- images ---

void ScheduleExplorer::Look(const char* position) {
  if (!looking_ || result_.failure) return;
  if (exhaustive_ != nullptr && exhaustive_->choices_made() < quiet_until_) return;
  const Scheduler::Aside aside;
  position_ = position;
  ++result_.positions;
  CopyInto(tracer_->inner().durable(), image_);
  const ImageSet images(tracer_->inner(), options_.model);
  if (images.count() <= options_.images) {
    images.Visit(options_.images, 0, random_, [&](const auto& picks) {
      Try(images, picks);
      return !result_.failure.has_value();
    });
    return;
  }
  for (unsigned i = 0; i < options_.images && !result_.failure; ++i)
    Try(images, images.Draw(random_));
}

void ScheduleExplorer::Try(const ImageSet& images, const ImageSet::Picks& picks) {
  ++result_.images;
  images.Apply(picks, image_.span().data());
  const XXH128_hash_t hash = XXH3_128bits(image_.span().data(), image_.span().size());
  const auto [known, fresh] = seen_.try_emplace({hash.low64, hash.high64});
  if (fresh) known->second = Recover();
  images.Undo(tracer_->inner().durable(), image_.span().data());
  if (const auto wrong = history_->Judge(known->second)) Fail(*wrong, images.Describe(picks));
  if (seen_.size() > kMostImagesKnown) seen_.clear();
}

Observation ScheduleExplorer::Recover() {
  ++result_.recoveries;
  watchdog_.Progress();
  Observation observation;
  LookingTracer tracer(image_, options_.fault);
  {
    const OpenPool open = OpenEngine(image_, &tracer, &observation.problem);
    if (observation.problem.empty()) observation = history_->Observe(*open.engine);
  }
  tracer.Undo(tracer_->inner().durable());
  result_.fault_happened |= tracer.happened;
  result_.crash_points.merge(tracer.points);
  return observation;
}

void ScheduleExplorer::Fail(const std::string& what, const std::string& image) {
  if (result_.failure) return;
  result_.failure = absl::StrCat(
      what,
      image.empty() ? "" : "\n  of what was not durable survives (stores kept of stores made):",
      image, "\n  ", Where());
}

std::string ScheduleExplorer::Where() const {
  std::string options;
  for (const auto& [name, value] : program_.engine_options) {
    absl::StrAppend(&options, " ", name, "=", value);
  }
  return absl::StrCat(position_, " on thread ",
                      scheduler_.run().switches.empty() ? 0 : scheduler_.run().switches.back().to,
                      "\n  ", program_.Describe(), "\n  schedule: ", scheduler_.run().ToString(),
                      "\n  engine ", options_.engine_case.Name(), ", model ",
                      ModelName(options_.model), ", options", options, ", ", way_, ", run ",
                      program_.name, "/", number_, "/", schedule_, "; ", SeedNote());
}

}  // namespace lodgekv::test
