#include "tests/crash/explorer/plan.h"

#include "absl/strings/str_cat.h"
#include "index/registry.h"

namespace lodgekv::test {
namespace {

struct PlannedRun {
  Mixture mixture;
  unsigned warm_up = 0;
  unsigned steps = 60;
  unsigned threads = 1;
  uint64_t memory_bytes = uint64_t{128} << 10;
  unsigned crashes = 0;
};

constexpr uint64_t kRoomy = uint64_t{512} << 10;

// Runs for every key format and node size.
std::vector<PlannedRun> CommonRuns(const EngineCase& engine_case) {
  const bool fixed = engine_case.fixed64();
  const std::string_view family = fixed ? "dense" : engine_case.inline_pairs ? "short" : "same_8";
  const Mixture mixed{.name = "mixed", .family = family, .largest_value = 40, .expiries = 10};
  return {
      {{.name = "puts",
        .family = family,
        .keys = 40,
        .deletes = 0,
        .conditions = 0,
        .groups = 0,
        .batches = 0}},
      {mixed},
      // The tree fills and is emptied: leaves and nodes are split and merged.
      {{.name = "tides",
        .family = family,
        .keys = 48,
        .deletes = 8,
        .conditions = 0,
        .groups = 25,
        .largest_group = 6,
        .tide = 40},
       0,
       200,
       2},
      {{.name = "batches",
        .family = fixed ? "extremes" : "prefixes",
        .keys = 30,
        .deletes = 30,
        .groups = 20,
        .batches = 60,
        .largest_group = 7,
        .largest_value = 80}},
      // Few keys, so that most operations meet a pair that is buffered or was deleted.
      {{.name = "hot", .family = family, .keys = 5, .deletes = 40, .groups = 20}, 0, 50},
      {{.name = "hands", .family = family, .keys = 16, .deletes = 25}, 0, 60, 3},
      // One crash after another, in a pool whose space often changes its use: few pairs of
      // different sizes, short and long batches.
      {{.name = "lineage",
        .family = fixed ? "dense" : "user_ids",
        .keys = 12,
        .deletes = 30,
        .groups = 10,
        .batches = 30,
        .largest_group = 8,
        .largest_value = 400},
       0,
       4,
       1,
       uint64_t{64} << 10,
       50},
      // A pool that runs full after some time.
      {{.name = "full",
        .family = fixed ? "scattered" : "user_ids",
        .keys = 400,
        .deletes = 5,
        .conditions = 0,
        .largest_group = 3,
        .largest_value = 900},
       fixed ? 300U : 0,
       80,
       1,
       uint64_t{64} << 10},
  };
}

// Runs for small nodes.
std::vector<PlannedRun> SmallRuns(std::string_view family) {
  return {
      // A tree of several inner nodes, which is nearly emptied and then grows again. One crash
      // after another.
      {{.name = "emptied",
        .family = family,
        .keys = 130,
        .deletes = 90,
        .conditions = 0,
        .groups = 40,
        .batches = 0,
        .largest_group = 16,
        .tide = 25},
       130,
       12,
       1,
       kRoomy,
       10},
      // A small tree that shrinks and grows while a sweep, a step of it with each write, goes over
      // it and comes to its end, again and again: so what the sweep found free is used.
      {{.name = "swept",
        .family = family,
        .keys = 36,
        .deletes = 45,
        .conditions = 0,
        .groups = 10,
        .batches = 5,
        .largest_group = 6,
        .largest_value = 1500,
        .tide = 20},
       24,
       50,
       1,
       kRoomy,
       3},
      // More operations for one node than its buffer or two leaves hold: they go to their leaves
      // directly, and those without room in a second round.
      {{.name = "throngs",
        .family = family,
        .keys = 60,
        .deletes = 20,
        .conditions = 5,
        .groups = 45,
        .batches = 45,
        .largest_group = 20,
        .tide = 8},
       20,
       16,
       1,
       kRoomy},
  };
}

std::vector<PlannedRun> RunsFor(const EngineCase& engine_case) {
  const bool fixed = engine_case.fixed64();
  const std::string_view family = fixed ? "dense" : engine_case.inline_pairs ? "short" : "same_8";
  std::vector<PlannedRun> runs = CommonRuns(engine_case);
  // Groups and batches that fill leaves several times over and hit the leaves that they have split.
  runs.push_back({{.name = "crowds",
                   .family = family,
                   .keys = 64,
                   .deletes = 15,
                   .conditions = 5,
                   .groups = 60,
                   .batches = 30,
                   .largest_group = 24,
                   .tide = 6},
                  0,
                  18,
                  1,
                  kRoomy});
  if (!fixed) {
    runs.push_back(
        {{.name = "long", .family = "long", .keys = 30, .deletes = 15, .largest_value = 300},
         0,
         60,
         1,
         kRoomy});
    runs.push_back({{.name = "any", .family = "any", .keys = 24, .expiries = 30}, 0, 60, 2});
  }
  if (engine_case.small_nodes) {
    for (const PlannedRun& run : SmallRuns(family)) runs.push_back(run);
  } else {
    // Nodes of the default size: full ones are made first, without images.
    runs.push_back({{.name = "grown", .family = fixed ? "dense" : "user_ids", .keys = 700},
                    620,
                    60,
                    1,
                    kRoomy});
  }
  return runs;
}

}  // namespace

std::vector<const EngineInfo*> AllPersistentEngines() {
  std::vector<const EngineInfo*> engines;
  for (const EngineInfo* engine : AllEngines()) {
    if (engine->persistent) engines.push_back(engine);
  }
  return engines;
}

bool DrawLongFences(const EngineCase& engine_case, CrashModel model, std::string_view workload,
                    uint64_t run) {
  if (model != CrashModel::kTornWords) return false;
  Random random(absl::StrCat("fences ", engine_case.Name(), std::string(workload)));
  return (random.Below(2) + run) % 2 == 1;
}

std::vector<ExplorerOptions> PlanRuns(const EngineCase& engine_case, CrashModel model,
                                      const Effort& effort) {
  std::vector<ExplorerOptions> plan;
  for (const PlannedRun& run : RunsFor(engine_case)) {
    for (unsigned i = 0; i < effort.runs; ++i) {
      ExplorerOptions options;
      options.engine_case = engine_case;
      options.model = model;
      options.long_fences = DrawLongFences(engine_case, model, run.mixture.name, i);
      options.mixture = run.mixture;
      options.warm_up = run.warm_up;
      options.steps = run.steps;
      options.threads = run.threads;
      options.memory_bytes = run.memory_bytes;
      options.crashes = run.crashes;
      options.run = i;
      options.exhaustive_up_to = effort.exhaustive_up_to;
      options.samples = effort.samples;
      options.continue_one_in = effort.continue_one_in;
      Random random(absl::StrCat("plan ", engine_case.Name(), std::string(run.mixture.name)), i);
      if (i > 0) options.engine_options = DrawEngineOptions(*engine_case.engine, random);
      plan.push_back(std::move(options));
    }
  }
  return plan;
}

}  // namespace lodgekv::test
