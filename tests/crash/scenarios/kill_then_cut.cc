#include "tests/crash/scenarios/kill_then_cut.h"

#include <cstring>
#include <vector>

#include "tests/crash/explorer/open_pool.h"
#include "tests/crash/explorer/plan.h"

namespace lodgekv::test {
namespace {

constexpr unsigned kSteps = 160;
constexpr unsigned kStepsAfterKill = 8;
constexpr uint64_t kExhaustiveUpTo = 32;
constexpr unsigned kSamples = 8;

class Scenario {
 public:
  Scenario(const EngineCase& engine_case, CrashModel model, Fault fault,
           const std::map<std::string, std::string>& given)
      : fault_(fault),
        options_(OptionsOf(engine_case, model)),
        engine_options_(OptionsFor(engine_case, given)),
        workload_(engine_case, options_.mixture),
        oracle_(engine_case),
        memory_(options_.memory_bytes),
        image_(options_.memory_bytes) {}

  KillThenCut Run() {
    Must(MakePool(options_, memory_));
    CrashTracer tracer(memory_.span());
    OpenPool open;
    Must(OpenImage(options_, engine_options_, memory_, &tracer, &open));
    tracer.before_fence = [&] { Kill(tracer); };
    TakeSteps(kSteps, *open.engine, oracle_);
    tracer.before_fence = nullptr;
    return seen_;
  }

 private:
  static ExplorerOptions OptionsOf(const EngineCase& engine_case, CrashModel model) {
    ExplorerOptions options;
    options.engine_case = engine_case;
    options.model = model;
    options.long_fences = DrawLongFences(engine_case, model, "kill, then cut", 0);
    const bool fixed = engine_case.fixed64();
    options.mixture = {.name = "killed",
                       .family = fixed                      ? "dense"
                                 : engine_case.inline_pairs ? "short"
                                                            : "same_8",
                       .keys = 32,
                       .conditions = 0,
                       .batches = 20,
                       .largest_value = 40,
                       .tide = 40};
    return options;
  }
  static void Must(const absl::Status& status) {
    if (!status.ok()) throw std::runtime_error(status.ToString());
  }

  void TakeSteps(unsigned count, Engine& engine, Oracle& oracle) {
    const auto version_of = [&](std::string_view key) { return oracle.VersionOf(key); };
    for (unsigned i = 0; i < count && !seen_.problem; ++i) {
      const Step step = workload_.Next(random_, version_of);
      oracle.Begin(step);
      std::vector<WriteResult> results(step.ops.size());
      (void)engine.Write(step.Ops(), results, step.Options());
      if (const auto problem = oracle.Finish(step, results)) Note(*problem);
    }
  }

  // Called before a fence of the process that is killed.
  void Kill(const CrashTracer& killed) {
    if (seen_.problem) return;
    ++seen_.kills;
    ArenaMemory seen_by_next = memory_.Copy();
    CrashTracer tracer(seen_by_next.span(), fault_, &killed);
    Oracle oracle = oracle_;
    tracer.before_fence = [&] { Cut(tracer, oracle); };
    OpenPool open;
    const absl::Status status = OpenImage(options_, engine_options_, seen_by_next, &tracer, &open);
    tracer.before_fence = nullptr;
    if (!status.ok()) return Note(status.ToString());
    const bool all = seen_.kills % 2 == 0;
    const auto problem =
        all ? oracle.Compare(*open.engine, workload_.keys()) : oracle.CompareInFlight(*open.engine);
    if (problem) return Note(*problem);
    oracle.Adopt();  // it has answered: its answers must stay true
    Cut(tracer, oracle);
    if (all) {
      if (seen_.kills % 4 == 0) CloseAndCut(tracer, oracle, &open);
      return;
    }
    tracer.before_fence = [&] { Cut(tracer, oracle); };
    TakeSteps(kStepsAfterKill, *open.engine, oracle);
    tracer.before_fence = nullptr;
  }

  // A clean close vouches for all that it leaves: that must be durable.
  void CloseAndCut(const CrashTracer& tracer, const Oracle& oracle, OpenPool* open) {
    const absl::Status engine_closed = open->engine->Close();
    if (!engine_closed.ok()) return Note(engine_closed.ToString());
    open->engine.reset();
    const absl::Status pool_closed = open->pool->Close(/*clean=*/true);
    if (!pool_closed.ok()) return Note(pool_closed.ToString());
    open->pool.reset();
    Cut(tracer, oracle);
  }

  void Cut(const CrashTracer& tracer, const Oracle& oracle) {
    const ImageSet images(tracer, options_.model);
    images.Visit(kExhaustiveUpTo, kSamples, random_, [&](const ImageSet::Picks& picks) {
      if (seen_.problem) return false;
      ++seen_.images;
      std::memcpy(image_.span().data(), tracer.durable().data(), image_.span().size());
      images.Apply(picks, image_.span().data());
      OpenPool open;
      Oracle checker = oracle;
      const absl::Status status = OpenImage(options_, engine_options_, image_, nullptr, &open);
      if (!status.ok()) {
        Note(status.ToString());
      } else if (const auto problem = checker.Compare(*open.engine, workload_.keys())) {
        Note(*problem);
      }
      return !seen_.problem.has_value();
    });
  }

  void Note(const std::string& problem) {
    if (!seen_.problem) seen_.problem = problem;
  }

  const Fault fault_;
  const ExplorerOptions options_;
  const OptionValues engine_options_;
  Workload workload_;
  Oracle oracle_;
  Random random_{"kill, then cut"};
  ArenaMemory memory_;
  ArenaMemory image_;
  KillThenCut seen_;
};

}  // namespace

KillThenCut RunKillThenCutScenario(const EngineCase& engine_case, CrashModel model, Fault fault,
                                   const std::map<std::string, std::string>& given) {
  return Scenario(engine_case, model, fault, given).Run();
}

}  // namespace lodgekv::test
