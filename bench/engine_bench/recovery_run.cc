#include "bench/engine_bench/recovery_run.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/engine_bench/key_space.h"
#include "bench/engine_bench/plan.h"
#include "bench/engine_bench/pool_files.h"
#include "bench/engine_bench/tally_check.h"
#include "index/key_format_name.h"

namespace lodgekv::bench {
namespace {

constexpr uint64_t kSampleReads = 100'000;

std::vector<std::string> LoaderArguments(const BenchOptions& options, const Subject& subject,
                                         const std::string& pool_path) {
  std::string engine = subject.engine;
  for (const auto& [name, value] : subject.engine_options) {
    absl::StrAppend(&engine, ":", name, "=", value);
  }
  std::vector<std::string> arguments = {
      "engine_bench",
      "--kill-after-load",
      "--no-baselines",
      absl::StrCat("--engine=", engine),
      absl::StrCat("--key-format=", std::string(KeyFormatName(subject.key_format))),
      absl::StrCat("--key-shape=", std::string(KeyShapeName(subject.key_shape))),
      absl::StrCat("--value-size=", subject.value_bytes),
      absl::StrCat("--workload=load:", std::string(DistributionName(options.load_distribution))),
      absl::StrCat("--keys=", options.keys),
      "--latency-ops=0",
      absl::StrCat("--threads=", options.threads.front()),
      absl::StrCat("--seed=", options.seed),
      absl::StrCat("--pool=", pool_path),
      absl::StrCat("--pool-size=", options.store.pool_size_bytes),
      absl::StrCat("--durability=", options.store.process_durability ? "process" : "medium"),
  };
  if (options.bulk_load_fill != 0) {
    arguments.push_back(absl::StrCat("--bulk-load-fill=", options.bulk_load_fill));
  }
  if (subject.inline_pairs) arguments.emplace_back("--inline-pairs");
  if (options.store.allow_volatile_medium) arguments.emplace_back("--allow-volatile-medium");
  if (!options.pin) arguments.emplace_back("--no-pin");
  return arguments;
}

// Runs this program again; its standard output is dropped, its errors are shown.
absl::StatusOr<int> RunSelf(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int error = posix_spawn(&child, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return absl::InternalError(
        absl::StrCat("recover: cannot start the process that loads: ", strerror(error)));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return absl::InternalError("recover: lost the process that loads");
  }
  return status;
}

absl::Status LoadAndKill(const BenchOptions& options, const Subject& subject,
                         const std::string& pool_path) {
  const auto status = RunSelf(LoaderArguments(options, subject, pool_path));
  if (!status.ok()) return status.status();
  if (WIFSIGNALED(*status) && WTERMSIG(*status) == SIGKILL) return absl::OkStatus();
  return absl::AbortedError(
      absl::StrCat("recover: the process that loads ended by itself, with status ",
                   WIFEXITED(*status) ? WEXITSTATUS(*status) : *status, "; its error is above"));
}

absl::Status CheckRecovered(const BenchOptions& options, EngineTarget& target) {
  const uint64_t counted = target.store().engine().CountKeys();
  if (counted != options.keys) {
    return absl::DataLossError(absl::StrCat("recover: ", counted,
                                            " keys are there after the crash, ", options.keys,
                                            " were acknowledged"));
  }
  KeySpace space(options.seed);
  for (uint64_t i = 0; i < options.keys; ++i) space.NewKey(options.load_distribution);
  space.Commit();
  std::vector<KeyRef> sample;
  const uint64_t reads = std::min(options.keys, kSampleReads);
  while (sample.size() < reads) sample.push_back(space.PickLive(Distribution::kUniform));
  OpBatch batch;
  batch.workload = Workload::kRead;
  batch.value_bytes = target.value_bytes();
  target.key_writer().Fill(sample, &batch);
  return CheckTally(target, batch, target.Run(batch, nullptr));
}

absl::StatusOr<RecoveryResult> OpenAndMeasure(const BenchOptions& options, const Subject& subject,
                                              const std::string& pool_path, unsigned threads) {
  using Clock = std::chrono::steady_clock;
  StoreOptions store_options = StoreOptionsFor(subject, options.store, pool_path);
  store_options.recovery_threads = threads;
  const Clock::time_point begin = Clock::now();
  auto store = Store::Open(store_options);
  const double milliseconds =
      std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  if (!store.ok()) return store.status();

  RecoveryResult result;
  result.id = subject.Id();
  result.keys = options.keys;
  result.threads = threads;
  result.report = (*store)->info().recovery;
  result.open_milliseconds = milliseconds;
  if (result.report.clean || (*store)->info().created) {
    return absl::InternalError("recover: the pool was not left as a crash leaves it");
  }
  EngineTarget target(subject, *std::move(store), options.seed, options.keys);
  if (auto status = CheckRecovered(options, target); !status.ok()) return status;
  result.memory = target.GetMemoryUse();
  if (auto status = target.store().Close(); !status.ok()) return status;
  return result;
}

}  // namespace

absl::StatusOr<RecoveryResult> MeasureRecovery(const BenchOptions& options, const Subject& subject,
                                               const std::string& pool_path, unsigned threads) {
  const absl::Status killed = LoadAndKill(options, subject, pool_path);
  absl::StatusOr<RecoveryResult> result =
      killed.ok() ? OpenAndMeasure(options, subject, pool_path, threads) : killed;
  if (!options.keep_pool) RemovePoolFiles(pool_path);
  return result;
}

}  // namespace lodgekv::bench
