#include "bench/engine_bench/bench_run.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/engine_bench/btree_target.h"
#include "bench/engine_bench/bulk_keys.h"
#include "bench/engine_bench/environment.h"
#include "bench/engine_bench/full_run.h"
#include "bench/engine_bench/persist_target.h"
#include "bench/engine_bench/phase_runner.h"
#include "bench/engine_bench/plan.h"
#include "bench/engine_bench/pool_files.h"
#include "bench/engine_bench/recovery_run.h"
#include "bench/engine_bench/report.h"
#include "bench/engine_bench/window_run.h"
#include "index/key_format_name.h"

namespace lodgekv::bench {
namespace {

constexpr uint64_t kPersistOps = 200'000;
constexpr char kMemoryFolder[] = "/dev/shm";

bool IsDevice(const std::string& path) { return path.starts_with("/dev/dax"); }

// The files of this run's pools: the first persistent engine uses the path itself.
std::vector<std::string> PoolPaths(const BenchOptions& options) {
  std::vector<std::string> paths;
  unsigned persistent = 0;
  for (const Subject& subject : options.subjects) {
    std::string path;
    if (subject.persistent) {
      path = persistent == 0 ? options.pool_path : absl::StrCat(options.pool_path, ".", persistent);
      ++persistent;
    }
    paths.push_back(path);
  }
  return paths;
}

absl::Status CheckIsFree(const std::string& path) {
  struct stat info {};
  if (path.empty() || IsDevice(path) || stat(path.c_str(), &info) != 0) return absl::OkStatus();
  if (S_ISREG(info.st_mode) && info.st_size == 0) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat("--pool: ", path,
                   " exists already; engine_bench makes its own pool and removes "
                   "it: name another file, or remove this one"));
}

std::string FolderOf(const std::string& pool_path) {
  if (pool_path.empty() || IsDevice(pool_path)) return kMemoryFolder;
  const size_t slash = pool_path.rfind('/');
  return slash == std::string::npos ? "." : pool_path.substr(0, std::max<size_t>(slash, 1));
}

class Bench {
 public:
  Bench(const BenchOptions& options, Plan plan, std::FILE* json, BenchResults* results)
      : options_(options),
        plan_(std::move(plan)),
        pool_paths_(PoolPaths(options)),
        workers_(*std::max_element(options.threads.begin(), options.threads.end()), options.pin),
        json_(json),
        results_(*results) {}

  absl::Status Run() {
    Describe();
    for (const std::string& path : pool_paths_) {
      if (auto status = CheckIsFree(path); !status.ok()) return status;
    }
    if (options_.baselines) {
      if (auto status = MeasurePersist(); !status.ok()) return status;
    }
    if (options_.MeasuresOperations()) {
      for (unsigned i = 0; i < options_.repeat; ++i) {
        auto status = MeasureOperations(i);
        RemovePools();
        if (!status.ok()) return status;
      }
    }
    if (auto status = MeasureWindows(); !status.ok()) return status;
    if (auto status = MeasureFullPools(); !status.ok()) return status;
    return MeasureRecoveries();
  }

 private:
  void Describe() const {
    Rows environment = DescribeEnvironment();
    environment.emplace_back("threads pinned", workers_.pinned() ? "yes" : "no");
    std::printf("%s%s", FormatRows("environment", environment).c_str(),
                FormatRows("options", options_.shown).c_str());
    for (const std::string& warning : EnvironmentWarnings()) {
      std::printf("WARNING: %s\n", warning.c_str());
    }
    std::fflush(stdout);
  }

  static void DescribeStore(const StoreInfo& info) {
    std::string pool;
    if (!info.pool_path.empty()) pool = absl::StrCat(" in ", info.pool_path);
    std::printf("medium of %s, %s%s: %s; durability: %s, %s\n", info.engine.c_str(),
                std::string(KeyFormatName(info.key_format)).c_str(), pool.c_str(),
                info.medium_class.c_str(), info.durability.c_str(), info.durability_detail.c_str());
    std::fflush(stdout);
  }

  StoreSettings SettingsFor(const Subject& subject) const {
    StoreSettings settings = options_.store;
    if (settings.pool_size_bytes == 0 && subject.persistent && !IsDevice(options_.pool_path)) {
      settings.pool_size_bytes = PoolBytesFor(subject, plan_.capacity, options_.bulk_load_fill);
    }
    return settings;
  }

  void RemovePools() const {
    if (options_.keep_pool) return;
    for (const std::string& path : pool_paths_) RemovePoolFiles(path);
  }

  void Emit(const std::string& line) const {
    if (json_ == nullptr) return;
    std::fprintf(json_, "%s\n", line.c_str());
    std::fflush(json_);
  }

  void Keep(std::vector<PhaseResult> phase) {
    for (PhaseResult& result : phase) {
      Emit(ToJson(result));
      results_.phases.push_back(std::move(result));
    }
  }

  absl::Status MeasurePersist();
  absl::Status MeasureOperations(unsigned turn);
  absl::StatusOr<std::vector<std::unique_ptr<EngineTarget>>> OpenTargets(bool describe);
  absl::StatusOr<std::unique_ptr<EngineTarget>> OpenTarget(size_t subject);
  absl::StatusOr<std::unique_ptr<EngineTarget>> LoadInBulk(size_t subject);
  absl::Status MeasureWindows();
  absl::Status MeasureFullPools();
  absl::Status MeasureRecoveries();

  const BenchOptions& options_;
  const Plan plan_;
  const std::vector<std::string> pool_paths_;
  WorkerPool workers_;
  std::FILE* const json_;
  BenchResults& results_;
  std::vector<std::vector<PhaseResult>> by_phase_;  // of all repeats so far
};

absl::Status Bench::MeasurePersist() {
  auto persist = PersistTarget::Create(FolderOf(options_.pool_path));
  if (!persist.ok()) return persist.status();
  PhasePlan plan;
  plan.phase = {Workload::kInsert, Distribution::kSequential};
  plan.ops = kPersistOps;
  plan.latency_ops = kPersistOps;
  plan.variants = {{}};
  plan.chunks = options_.chunks;
  plan.op_end = options_.op_end;
  PhaseRunner runner(workers_, {persist->get()}, {}, options_.seed);
  std::vector<PhaseResult> result;
  if (auto status = runner.Run(plan, 1, &result); !status.ok()) return status;
  result[0].workload = "persist";
  Keep(std::move(result));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<EngineTarget>> Bench::OpenTarget(size_t i) {
  if (options_.bulk_load_fill != 0) return LoadInBulk(i);
  const Subject& subject = options_.subjects[i];
  return EngineTarget::Create(subject, SettingsFor(subject), pool_paths_[i], options_.seed,
                              plan_.capacity);
}

// Runs the plan's first phase, the load, as one operation; its result is reported like that of
// inserts, without latencies.
absl::StatusOr<std::unique_ptr<EngineTarget>> Bench::LoadInBulk(size_t i) {
  const Subject& subject = options_.subjects[i];
  const KeyWriter writer(subject.key_format, subject.key_shape, options_.seed, plan_.capacity);
  const Phase& phase = plan_.phases.front().phase;
  BulkKeys keys(writer, subject.key_format, subject.value_bytes, phase.distribution, options_.keys);
  const BulkLoad load{keys.Source(), options_.bulk_load_fill};
  auto target = EngineTarget::Create(subject, SettingsFor(subject), pool_paths_[i], options_.seed,
                                     plan_.capacity, &load);
  if (!target.ok()) return target;
  std::vector<PhaseResult>& results = by_phase_.front();
  if (results.size() <= i) results.resize(i + 1);
  PhaseResult& result = results[i];
  keys.Finish(&result);
  result.id = subject.Id();
  result.workload = "bulk_load";
  result.distribution = DistributionName(phase.distribution);
  result.keys = result.live_keys = options_.keys;
  result.memory = (*target)->GetMemoryUse();
  return target;
}

absl::StatusOr<std::vector<std::unique_ptr<EngineTarget>>> Bench::OpenTargets(bool describe) {
  std::vector<std::unique_ptr<EngineTarget>> targets;
  for (size_t i = 0; i < options_.subjects.size(); ++i) {
    auto target = OpenTarget(i);
    if (!target.ok()) return target.status();
    if (describe) DescribeStore((*target)->store().info());
    targets.push_back(*std::move(target));
  }
  return targets;
}

absl::Status Bench::MeasureOperations(unsigned turn) {
  by_phase_.resize(plan_.phases.size());
  auto targets = OpenTargets(/*describe=*/turn == 0);
  if (!targets.ok()) return targets.status();
  std::vector<std::unique_ptr<BtreeTarget>> btrees;
  if (options_.baselines) {
    for (const auto pages : {BtreeMemory::Pages::kHeap, BtreeMemory::Pages::kHuge}) {
      btrees.push_back(std::make_unique<BtreeTarget>(options_.seed, pages));
    }
  }
  std::vector<Target*> subjects;
  for (const auto& target : *targets) subjects.push_back(target.get());
  std::vector<Target*> baselines;
  for (const auto& btree : btrees) baselines.push_back(btree.get());
  PhaseRunner runner(workers_, std::move(subjects), std::move(baselines), options_.seed);

  for (size_t i = 0; i < plan_.phases.size(); ++i) {
    const PhasePlan& phase = plan_.phases[i];
    const std::string name(WorkloadName(phase.phase.workload));
    std::fprintf(stderr, "run %u of %u, phase %zu of %zu: %s\n", turn + 1, options_.repeat, i + 1,
                 plan_.phases.size(), name.c_str());
    const bool loaded = i == 0 && options_.bulk_load_fill != 0;
    const absl::Status status = loaded ? runner.AdoptLoaded(phase.phase.distribution, options_.keys)
                                       : runner.Run(phase, options_.keys, &by_phase_[i]);
    if (!status.ok()) return status;
    if (options_.kill_after_load) kill(getpid(), SIGKILL);
    if (turn + 1 == options_.repeat && phase.reported) Keep(std::move(by_phase_[i]));
  }
  for (const auto& target : *targets) {
    if (auto status = target->store().Close(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Bench::MeasureWindows() {
  if (!options_.Measures(Workload::kWindow)) return absl::OkStatus();
  for (size_t i = 0; i < options_.subjects.size(); ++i) {
    BenchOptions options = options_;
    options.store = SettingsFor(options.subjects[i]);
    for (unsigned turn = 0; turn < options.repeat; ++turn) {
      std::fprintf(stderr, "window: %s, run %u of %u\n", options.subjects[i].engine.c_str(),
                   turn + 1, options.repeat);
      auto result = MeasureWindow(options, options.subjects[i], pool_paths_[i]);
      if (!result.ok()) return result.status();
      Emit(ToJson(*result));
      results_.windows.push_back(*std::move(result));
    }
  }
  return absl::OkStatus();
}

absl::Status Bench::MeasureFullPools() {
  if (!options_.Measures(Workload::kFull)) return absl::OkStatus();
  for (size_t i = 0; i < options_.subjects.size(); ++i) {
    BenchOptions options = options_;
    options.store = SettingsFor(options.subjects[i]);
    for (unsigned turn = 0; turn < options.repeat; ++turn) {
      std::fprintf(stderr, "full: %s, run %u of %u\n", options.subjects[i].engine.c_str(), turn + 1,
                   options.repeat);
      auto stages = MeasureFullPool(options, options.subjects[i], pool_paths_[i]);
      if (!stages.ok()) return stages.status();
      for (FullStageResult& stage : *stages) {
        Emit(ToJson(stage));
        results_.full_stages.push_back(std::move(stage));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Bench::MeasureRecoveries() {
  if (!options_.Measures(Workload::kRecover)) return absl::OkStatus();
  for (size_t i = 0; i < options_.subjects.size(); ++i) {
    BenchOptions options = options_;
    options.store = SettingsFor(options.subjects[i]);
    for (const unsigned threads : options.recovery_threads) {
      for (unsigned turn = 0; turn < options.repeat; ++turn) {
        std::fprintf(stderr, "recover: %s, %u threads, run %u of %u\n",
                     options.subjects[i].engine.c_str(), threads, turn + 1, options.repeat);
        auto result = MeasureRecovery(options, options.subjects[i], pool_paths_[i], threads);
        if (!result.ok()) return result.status();
        Emit(ToJson(*result));
        results_.recoveries.push_back(*std::move(result));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunBench(const BenchOptions& options, std::FILE* json, BenchResults* results) {
  auto plan = MakePlan(options);
  if (!plan.ok()) return plan.status();
  return Bench(options, *std::move(plan), json, results).Run();
}

}  // namespace lodgekv::bench
