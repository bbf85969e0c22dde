#include "tests/crash/scenarios/file_scenario.h"

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "index/node/epoch.h"
#include "index/pmem/internal/journal_replay.h"
#include "tests/crash/explorer/open_pool.h"
#include "tests/crash/explorer/plan.h"
#include "tests/crash/lab/workers.h"

namespace lodgekv::test {
namespace {

constexpr uint64_t kJournalBytes = 65536;  // four segments of 16 KiB, constantly reused
constexpr unsigned kSteps = 60;
constexpr unsigned kStepsOfSuccessors = 8;
constexpr unsigned kMaxDepth = 2;
constexpr unsigned kContinueOneIn = 50;
constexpr unsigned kThreads = 3;
constexpr uint64_t kMemoryBytes = uint64_t{256} << 10;

ExplorerOptions OptionsOf(const EngineCase& engine_case, uint64_t run) {
  ExplorerOptions options;
  options.engine_case = engine_case;
  options.model = CrashModel::kTornWords;
  options.run = run;
  options.memory_bytes = kMemoryBytes;
  options.long_fences = true;
  const bool fixed = engine_case.fixed64();
  options.mixture = {.name = "file",
                     .family = fixed                      ? "dense"
                               : engine_case.inline_pairs ? "short"
                                                          : "same_8",
                     .keys = 40,
                     .deletes = 25,
                     .batches = 15,
                     .largest_value = 60};
  Random random(absl::StrCat("file ", engine_case.Name()), run);
  if (run > 0) options.engine_options = DrawEngineOptions(*engine_case.engine, random);
  return options;
}

class Scenario {
 public:
  Scenario(const EngineCase& engine_case, Fault fault, uint64_t run)
      : fault_(fault),
        options_(OptionsOf(engine_case, run)),
        engine_options_(OptionsFor(engine_case, options_.engine_options)),
        workload_(engine_case, options_.mixture),
        random_(absl::StrCat("on a file ", engine_case.Name()), run),
        workers_(kThreads) {}

  FileOutcome Run();

 private:
  class EngineRun;

  static pmem::ArenaJournal JournalOn(ModelDisk& disk) {
    return {disk.place(), &disk, &disk, kJournalBytes};
  }

  pmem::Pool::ArenaOptions ArenaOf(const ArenaMemory& memory, ModelDisk& disk,
                                   const pmem::ArenaJournal& journal) const {
    pmem::Pool::ArenaOptions arena;
    arena.memory = memory.span();
    arena.chunk_bytes = options_.chunk_bytes;
    arena.tracer = &disk;
    arena.journal = &journal;
    arena.verify_at_use = options_.engine_case.engine->verifies_at_use;
    return arena;
  }

  // Creates a pool; returns the content of its journal.
  std::vector<std::byte> Create(const ArenaMemory& memory) {
    ModelDisk disk(memory.span(), {}, fault_);
    const pmem::ArenaJournal journal = JournalOn(disk);
    const auto pool = pmem::Pool::CreateArena(ArenaOf(memory, disk, journal),
                                              IdentityOf(options_.engine_case, options_.run));
    if (!pool.ok()) Note(pool.status().ToString());
    DiskImage image(kMemoryBytes);
    disk.Draw(random_, &image);
    return image.journal;
  }

  // By replay and the engine's recovery.
  absl::Status Open(const ArenaMemory& memory, ModelDisk& disk, OpenPool* open) {
    const pmem::ArenaJournal journal = JournalOn(disk);
    auto pool = pmem::Pool::OpenArena(ArenaOf(memory, disk, journal));
    if (!pool.ok()) return pool.status();
    seen_.replayed_groups += (*pool)->journal_replay().groups;
    return OpenEngine(options_, engine_options_, *std::move(pool), open);
  }

  void Note(const std::string& problem) {
    if (!seen_.problem) {
      seen_.problem = absl::StrCat(problem, "; ", options_.engine_case.Name(), ", run ",
                                   options_.run, ", image ", seen_.images);
    }
  }
  void Note(const Oracle::Problem& problem) {
    if (problem) Note(*problem);
  }

  void LearnFrom(const ModelDisk& disk) {
    seen_.crash_points.insert(disk.crash_points().begin(), disk.crash_points().end());
    seen_.fault_happened |= disk.fault_happened();
  }

  const Fault fault_;
  const ExplorerOptions options_;
  const OptionValues engine_options_;
  Workload workload_;
  Random random_;
  Workers workers_;
  FileOutcome seen_;
};

// From one power cut to the next; within it the process may end and start again.
class Scenario::EngineRun {
 public:
  EngineRun(Scenario& scenario, unsigned depth, ArenaMemory memory, std::vector<std::byte> journal,
            Oracle oracle)
      : scenario_(scenario),
        depth_(depth),
        memory_(std::move(memory)),
        disk_(memory_.span(), std::move(journal), scenario.fault_),
        oracle_(std::move(oracle)),
        image_(kMemoryBytes) {}

  void Run(unsigned steps) {
    disk_.on_moment = [this](Moment moment) { Reach(moment); };
    open_ = std::make_unique<OpenPool>();
    Note(scenario_.Open(memory_, disk_, open_.get()));
    for (unsigned i = 0; i < steps && !ended(); ++i) {
      if (scenario_.random_.OneIn(20)) {
        Restart(/*in_order=*/scenario_.random_.OneIn(2));
      } else {
        TakeStep();
      }
    }
    CheckRunningEngine();
    disk_.on_moment = nullptr;
    open_.reset();
    scenario_.LearnFrom(disk_);
  }

 private:
  bool ended() const { return scenario_.seen_.problem.has_value(); }

  void Note(const absl::Status& status) {
    if (!status.ok()) scenario_.Note(status.ToString());
  }

  void TakeStep() {
    const auto version_of = [this](std::string_view key) { return oracle_.VersionOf(key); };
    const Step step = scenario_.workload_.Next(scenario_.random_, version_of);
    oracle_.Begin(step);
    std::vector<WriteResult> results(step.ops.size());
    scenario_.workers_.Do(scenario_.random_.Below(kThreads),
                          [&] { (void)open_->engine->Write(step.Ops(), results, step.Options()); });
    if (!ended()) scenario_.Note(oracle_.Finish(step, results));
  }

  // If not `in_order`, the process is killed: its successor sees all its stores.
  void Restart(bool in_order) {
    if (in_order) {
      Note(open_->engine->Close());
      open_->engine.reset();
      Note(open_->pool->Close(true));
    }
    if (ended()) return;
    if (!in_order && scenario_.random_.OneIn(2)) disk_.FailSync();  // and the process ends
    open_ = std::make_unique<OpenPool>();
    Note(scenario_.Open(memory_, disk_, open_.get()));
    CheckRunningEngine();
  }

  // A first touch makes a fence, at which images are compared with oracle_.
  void CheckRunningEngine() {
    if (ended()) return;
    Oracle oracle = oracle_;
    scenario_.Note(oracle.Compare(*open_->engine, scenario_.workload_.keys()));
  }

  // The disk is locked. Inside an EpochGuard, at a first touch, no engine is opened: it could wait
  // for the guard.
  void Reach(Moment moment) {
    if (ended() || busy_ || EpochGuard::IsHeld()) return;
    busy_ = true;
    const uint64_t images = moment == Moment::kFence || moment == Moment::kPoint
                                ? (scenario_.random_.OneIn(4) ? 1 : 0)
                                : 2;
    for (uint64_t i = 0; i < images && !ended(); ++i) TryImage(moment);
    busy_ = false;
  }

  void TryImage(Moment moment) {
    FileOutcome& seen = scenario_.seen_;
    ++seen.images;
    ++seen.at[static_cast<size_t>(moment)];
    if (depth_ > 0) ++seen.nested_images;
    disk_.Draw(scenario_.random_, &image_);
    const bool continues =
        depth_ < kMaxDepth && scenario_.random_.OneIn(kContinueOneIn << (2 * depth_));
    std::optional<DiskImage> begin;
    if (continues) {
      begin.emplace(kMemoryBytes);
      std::memcpy(begin->pool.span().data(), image_.pool.span().data(), kMemoryBytes);
      begin->journal = image_.journal;
    }
    {
      ModelDisk disk(image_.pool.span(), image_.journal, scenario_.fault_);
      OpenPool open;
      const absl::Status status = scenario_.Open(image_.pool, disk, &open);
      if (status.ok()) {
        scenario_.Note(oracle_.Compare(*open.engine, scenario_.workload_.keys()));
      } else {
        scenario_.Note(absl::StrCat("it cannot be opened: ", status.ToString()));
      }
      scenario_.LearnFrom(disk);
    }
    if (!begin || ended()) return;
    ++seen.continued;
    Oracle oracle = oracle_;
    oracle.Adopt();
    EngineRun(scenario_, depth_ + 1, std::move(begin->pool), std::move(begin->journal),
              std::move(oracle))
        .Run(kStepsOfSuccessors);
  }

  Scenario& scenario_;
  const unsigned depth_;
  ArenaMemory memory_;
  ModelDisk disk_;  // outlives the pool
  Oracle oracle_;
  std::unique_ptr<OpenPool> open_;
  DiskImage image_;
  bool busy_ = false;
};

FileOutcome Scenario::Run() {
  ArenaMemory memory(kMemoryBytes);
  memory.FillWithGarbage(TestSeed() + options_.run);
  std::vector<std::byte> journal = Create(memory);
  if (seen_.problem) return seen_;
  EngineRun(*this, 0, std::move(memory), std::move(journal), Oracle(options_.engine_case))
      .Run(kSteps);
  return seen_;
}

void Add(FileOutcome&& seen, FileOutcome* all) {
  all->images += seen.images;
  all->nested_images += seen.nested_images;
  all->continued += seen.continued;
  for (size_t i = 0; i < kMoments; ++i) all->at[i] += seen.at[i];
  all->replayed_groups += seen.replayed_groups;
  all->crash_points.merge(seen.crash_points);
  all->fault_happened |= seen.fault_happened;
  all->problem = std::move(seen.problem);
}

}  // namespace

FileOutcome RunFileScenario(const EngineCase& engine_case, Fault fault, uint64_t runs) {
  FileOutcome all;
  for (uint64_t run = 0; run < runs && !all.problem; ++run) {
    Add(Scenario(engine_case, fault, run).Run(), &all);
  }
  return all;
}

}  // namespace lodgekv::test
