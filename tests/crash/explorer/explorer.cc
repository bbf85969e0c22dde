#include "tests/crash/explorer/explorer.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/crash/explorer/engine_run.h"
#include "tests/crash/explorer/shrink.h"

namespace lodgekv::test {
namespace {

// An image's engine exists for some ten microseconds: its memory must not go back to the system.
void KeepFreedMemory() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
  mallopt(M_MXFAST, 0);  // otherwise freeing a large block walks the small ones
}

}  // namespace

void ExplorerResult::Add(const ExplorerResult& other) {
  steps += other.steps;
  positions += other.positions;
  exhaustive_positions += other.exhaustive_positions;
  images += other.images;
  nested_images += other.nested_images;
  continued += other.continued;
  fault_happened |= other.fault_happened;
  crash_points.insert(other.crash_points.begin(), other.crash_points.end());
  if (failure || !other.failure) return;
  failure = other.failure;
  script = other.script;
  shortest = other.shortest;
}

Explorer::Explorer(const ExplorerOptions& options)
    : options_(options),
      engine_options_(OptionsFor(options.engine_case, options.engine_options)),
      random_(absl::StrCat("crash ", options.engine_case.Name(), " ", ModelName(options.model), " ",
                           std::string(options.mixture.name)),
              options.run),
      workload_(options.engine_case, options.mixture),
      workers_(std::make_unique<Workers>(options.threads)) {
  KeepFreedMemory();
  result_.fault_happened = options_.fault.kind == Fault::Kind::kOrderByFences &&
                           options_.model == CrashModel::kTornWords && !options_.long_fences;
}

Explorer::~Explorer() = default;

ExplorerResult Explorer::Run() {
  RunAll();
  workers_.reset();  // a forked child must not miss a thread
  if (result_.failure && options_.shrink) {
    Shrunk shrunk = Shrink(options_, result_.script);
    absl::StrAppend(&*result_.failure, "\n", shrunk.text);
    result_.shortest = std::move(shrunk.script);
  }
  return std::exchange(result_, {});
}

void Explorer::RunAll() {
  Watchdog watchdog([this] {
    const EngineRun* run = current_run_.load();
    return run == nullptr ? Where() : run->Locate();
  });
  watchdog_ = &watchdog;
  auto run = std::make_unique<EngineRun>(*this, 0, 0, Oracle(options_.engine_case),
                                         ArenaMemory(options_.memory_bytes), nullptr);
  run->Create();
  if (!Ended()) run->WarmUp(options_.warm_up);
  if (!Ended()) run->Steps(options_.steps);
  for (unsigned i = 0; i < options_.crashes && !Ended(); ++i) {
    run = run->TakeSuccessor();
    run->Recover();
    if (!Ended()) run->Steps(options_.steps);
  }
  run.reset();
}

std::string Explorer::Where() const {
  std::string text =
      absl::StrCat("engine ", options_.engine_case.Name(), ", model ", ModelName(options_.model),
                   options_.long_fences ? ", long fences" : "", ", workload ",
                   std::string(options_.mixture.name), "/", options_.run, ", options");
  for (const auto& [name, value] : options_.engine_options) {
    absl::StrAppend(&text, " ", name, "=", value);
  }
  return absl::StrCat(text, ", image ", result_.images, "; ", SeedNote());
}

std::map<std::string, std::string> DrawEngineOptions(const EngineInfo& engine, Random& random) {
  std::map<std::string, std::string> drawn;
  for (const EngineOption& option : engine.options) {
    const bool is_switch = option.min_value == 0 && option.max_value == 1;
    if (is_switch) {
      if (random.OneIn(5)) drawn[std::string(option.name)] = absl::StrCat(1 - option.default_value);
    } else if (random.OneIn(2)) {
      const uint64_t span = std::min<uint64_t>(option.max_value - option.min_value, 5);
      drawn[std::string(option.name)] = absl::StrCat(option.min_value + random.Below(span + 1));
    }
  }
  return drawn;
}

}  // namespace lodgekv::test
