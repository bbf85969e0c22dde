#include "tests/crash/schedule/schedule_plan.h"

#include <algorithm>

namespace lodgekv::test {

std::vector<EngineCase> ScheduleCases() {
  std::vector<EngineCase> cases = PersistentCases();
  const auto has_small = [](const EngineCase& of) {
    const std::vector<EngineCase> all = PersistentCases();
    return std::any_of(all.begin(), all.end(), [&](const EngineCase& other) {
      return other.engine == of.engine && other.small_nodes;
    });
  };
  std::erase_if(cases, [&](const EngineCase& engine_case) {
    return !engine_case.small_nodes && has_small(engine_case);
  });
  return cases;
}

std::vector<PlannedPrograms> PlanPrograms(const EngineCase& engine_case) {
  const bool fixed = engine_case.fixed64();
  const std::string_view family = fixed ? "dense" : engine_case.inline_pairs ? "short" : "same_8";
  const ScheduleExplorer::Plan random{.random = 32, .depth = 3};
  const ScheduleExplorer::Plan all{
      .random = 2, .depth = 2, .exhaustive_up_to = 6'000, .preemptions = 2};
  return {
      {{.name = "pairs", .family = family}, 100, random},
      {{.name = "triples", .family = family, .threads = 3}, 60, random},
      // One key, so that every call conflicts with the others.
      {{.name = "one_key", .family = family, .keys = 8, .hot_keys = 1, .reads = 40}, 40, random},
      // Readers beside groups that fill and split leaves, so that slots are reused.
      {{.name = "groups",
        .family = family,
        .keys = 16,
        .warm_up = 40,
        .calls = 3,
        .hot_keys = 8,
        .reads = 45,
        .scans = 60,
        .deletes = 15,
        .conditions = 0,
        .groups = 70,
        .batches = 0,
        .before = 2},
       40,
       random},
      // Readers beside groups that are larger than a leaf.
      {{.name = "crowds",
        .family = family,
        .keys = 24,
        .warm_up = 12,
        .hot_keys = 12,
        .reads = 50,
        .scans = 30,
        .deletes = 5,
        .conditions = 0,
        .groups = 90,
        .batches = 20,
        .largest_group = 12},
       20,
       random},
      // Atomic batches beside puts that flush leaves which may hold the same keys.
      {{.name = "batches",
        .family = family,
        .keys = 40,
        .warm_up = 60,
        .calls = 3,
        .hot_keys = 8,
        .reads = 5,
        .deletes = 5,
        .conditions = 0,
        .groups = 0,
        .batches = 50,
        .before = 1},
       60,
       random},
      {{.name = "few", .family = family, .calls = 1, .hot_keys = 2}, 4, all},
      {{.name = "some", .family = family, .calls = 2, .hot_keys = 2}, 2, all},
  };
}

}  // namespace lodgekv::test
