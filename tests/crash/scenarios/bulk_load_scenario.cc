#include "tests/crash/scenarios/bulk_load_scenario.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/crash/explorer/open_pool.h"
#include "tests/crash/explorer/plan.h"
#include "tests/support/engine_calls.h"
#include "tests/support/key_sets.h"

namespace lodgekv::test {
namespace {

// Images at one position: all if at most this many, otherwise this many drawn. A load has many
// lines in flight.
constexpr uint64_t kExhaustiveUpTo = 32;
constexpr unsigned kSamples = 24;
constexpr unsigned kSteps = 12;    // of writes after the load
constexpr unsigned kMoreKeys = 8;  // written, but not loaded
// One pair, a leaf or two, several chunks of leaves: each with each fill, and again with drawn
// options.
constexpr unsigned kPairs[] = {1, 20, 60, 150};
constexpr unsigned kFills[] = {kLeastFillPercent, 70, 100};
constexpr unsigned kRuns = 3 * std::size(kPairs) * std::size(kFills);

class Scenario {
 public:
  Scenario(const EngineCase& engine_case, CrashModel model, Fault fault, unsigned run)
      : fault_(fault),
        options_(OptionsOf(engine_case, model, run)),
        fill_percent_(kFills[run % std::size(kFills)]),
        engine_options_(OptionsFor(engine_case, options_.engine_options)),
        workload_(engine_case, options_.mixture),
        oracle_(engine_case),
        random_("bulk load", run),
        memory_(options_.memory_bytes),
        image_(options_.memory_bytes) {}

  BulkLoadOutcome Run() {
    MakeStep();
    Note(MakePool(options_, memory_));
    CrashTracer tracer(memory_.span(), fault_);
    OpenPool open;
    if (!seen_.problem) Note(OpenWithoutEngine(memory_, &tracer, &open));
    if (seen_.problem) return seen_;
    tracer.before_fence = [&] { Cut(tracer); };
    oracle_.Begin(load_);
    Load(tracer, &open);
    if (!seen_.problem) TakeSteps(tracer, *open.engine);
    tracer.before_fence = nullptr;
    seen_.crash_points = tracer.crash_points();
    return seen_;
  }

 private:
  static ExplorerOptions OptionsOf(const EngineCase& engine_case, CrashModel model, unsigned run) {
    ExplorerOptions options;
    options.engine_case = engine_case;
    options.model = model;
    options.run = run;
    options.memory_bytes = uint64_t{512} << 10;
    options.long_fences = DrawLongFences(engine_case, model, "bulk load", run);
    const bool fixed = engine_case.fixed64();
    options.mixture = {.name = "bulk load",
                       .family = fixed                      ? "dense"
                                 : engine_case.inline_pairs ? "short"
                                                            : "same_8",
                       .keys = kPairs[run / std::size(kFills) % std::size(kPairs)] + kMoreKeys,
                       .largest_value = 40};
    Random random(absl::StrCat("bulk load ", engine_case.Name()), run);
    if (run > 0) options.engine_options = DrawEngineOptions(*engine_case.engine, random);
    return options;
  }

  // The load as a step in flight: all of it or nothing.
  void MakeStep() {
    load_.atomic = true;
    std::vector<std::string> keys = workload_.keys();
    std::sort(keys.begin(), keys.end());
    for (unsigned i = 0; i < kMoreKeys; ++i) {
      keys.erase(keys.begin() + static_cast<ptrdiff_t>(random_.Below(keys.size())));
    }
    for (const std::string& key : keys) {
      load_.ops.push_back(
          {WriteKind::kPut, Condition::kNone, key, ValueNumber(load_.ops.size()), 0, 0});
    }
  }

  // Some of them fit into a slot if the pool has inline pairs.
  std::string ValueNumber(uint64_t number) {
    const EngineCase& engine_case = options_.engine_case;
    if (engine_case.inline_pairs && random_.OneIn(2)) return absl::StrCat(number);
    return ValueOf(engine_case.key_format, number, 8 + random_.Below(32));
  }

  absl::Status OpenWithoutEngine(const ArenaMemory& memory, pmem::Tracer* tracer, OpenPool* open) {
    auto pool = OpenArena(options_, memory, tracer);
    if (!pool.ok()) return pool.status();
    open->pool = *std::move(pool);
    empty_bytes_ = open->pool->allocated_bytes();
    return absl::OkStatus();
  }

  void Load(const CrashTracer& tracer, OpenPool* open) {
    const BulkSource source = [this, next = size_t{0}](BulkPair* pair) mutable {
      if (next == load_.ops.size()) return absl::StatusOr<bool>(false);
      const StepOp& op = load_.ops[next++];
      *pair = {op.key, op.value, op.expiry_unix_ms};
      return absl::StatusOr<bool>(true);
    };
    auto engine = options_.engine_case.engine->bulk_load(
        ContextOf(options_, engine_options_, open->pool.get()), {source, fill_percent_});
    if (!engine.ok()) return Note(engine.status());
    returned_ = true;
    Cut(tracer);
    returned_ = false;
    open->pool->MarkEngineCreated();
    open->engine = *std::move(engine);
    Learn(*open->engine);
  }

  // From here on all pairs are expected with their current versions.
  void Learn(Engine& engine) {
    std::vector<WriteResult> results;
    for (const StepOp& op : load_.ops) {
      const std::string_view key = op.key;
      ReadResult read;
      if (engine.Read({&key, 1}, {&read, 1}, {kRunNow}) != Outcome::kOk || !read.found) {
        return Note(absl::StrCat("the running engine has lost key ", Show(op.key)));
      }
      results.push_back({Outcome::kOk, false, read.version});
    }
    if (const auto problem = oracle_.Finish(load_, results)) Note(*problem);
  }

  void TakeSteps(const CrashTracer& tracer, Engine& engine) {
    Cut(tracer);
    const auto version_of = [this](std::string_view key) { return oracle_.VersionOf(key); };
    for (unsigned i = 0; i < kSteps && !seen_.problem; ++i) {
      const Step step = workload_.Next(random_, version_of);
      oracle_.Begin(step);
      std::vector<WriteResult> results(step.ops.size());
      (void)engine.Write(step.Ops(), results, step.Options());
      if (const auto problem = oracle_.Finish(step, results)) Note(*problem);
    }
    Cut(tracer);
    if (seen_.problem) return;
    if (const auto problem = oracle_.Compare(engine, workload_.keys())) Note(*problem);
  }

  void Cut(const CrashTracer& tracer) {
    if (seen_.problem) return;
    const ImageSet images(tracer, options_.model);
    const auto check = [&](const ImageSet::Picks& picks) {
      ++seen_.images;
      std::memcpy(image_.span().data(), tracer.durable().data(), image_.span().size());
      images.Apply(picks, image_.span().data());
      Check();
      return !seen_.problem.has_value();
    };
    if (images.count() <= kExhaustiveUpTo) {
      images.Visit(kExhaustiveUpTo, 0, random_, check);
      return;
    }
    for (unsigned i = 0; i < kSamples && check(images.Draw(random_)); ++i) {
    }
  }

  void Check() {
    auto pool = OpenArena(options_, image_, nullptr);
    if (!pool.ok()) return Note(pool.status());
    OpenPool open;
    open.pool = *std::move(pool);
    const EngineContext context = ContextOf(options_, engine_options_, open.pool.get());
    if (!open.pool->engine_created() && !returned_) return CheckEmpty(context, &open);
    RecoveryReport report;
    auto engine = options_.engine_case.engine->recover(context, &report);
    if (!engine.ok()) return Note(engine.status());
    open.engine = *std::move(engine);
    if (const auto problem = oracle_.Compare(*open.engine, workload_.keys())) return Note(*problem);
    if (returned_ && report.keys != load_.ops.size())
      Note("the load has returned and is not there");
  }

  // As the store does for a pool without an engine.
  void CheckEmpty(const EngineContext& context, OpenPool* open) {
    ++seen_.without_engine;
    if (loaded()) return Note("the engine is not there any more");
    open->pool->ResetForEngine();
    const uint64_t bytes = open->pool->allocated_bytes();
    if (bytes != empty_bytes_) return Note(absl::StrCat(bytes, " bytes of the load stay taken"));
    auto engine = options_.engine_case.engine->create(context);
    if (!engine.ok()) return Note(engine.status());
    open->engine = *std::move(engine);
    const CheckReport report = open->engine->Check();
    if (report.problem_count == 0 && report.keys == 0) return;
    Note(absl::StrCat("a new engine has ", report.keys, " keys and ", report.problem_count,
                      " problems"));
  }

  // Whether the load has been acknowledged.
  bool loaded() const { return !oracle_.state().empty(); }

  void Note(const std::string& problem) {
    if (!seen_.problem) {
      seen_.problem = absl::StrCat(problem, "; ", load_.ops.size(), " pairs at ", fill_percent_,
                                   " percent, run ", options_.run);
    }
  }
  void Note(const absl::Status& status) {
    if (!status.ok()) Note(status.ToString());
  }

  const Fault fault_;
  const ExplorerOptions options_;
  const unsigned fill_percent_;
  const OptionValues engine_options_;
  Workload workload_;
  Oracle oracle_;
  Random random_;
  ArenaMemory memory_;
  ArenaMemory image_;
  Step load_;
  uint64_t empty_bytes_ = 0;
  bool returned_ =
      false;  // the load has returned, but the pool does not count as having an engine yet
  BulkLoadOutcome seen_;
};

}  // namespace

BulkLoadOutcome RunBulkLoadScenario(const EngineCase& engine_case, CrashModel model, Fault fault) {
  BulkLoadOutcome all;
  for (unsigned run = 0; run < kRuns && !all.problem; ++run) {
    BulkLoadOutcome seen = Scenario(engine_case, model, fault, run).Run();
    all.images += seen.images;
    all.without_engine += seen.without_engine;
    all.problem = std::move(seen.problem);
    all.crash_points.merge(seen.crash_points);
  }
  return all;
}

}  // namespace lodgekv::test
