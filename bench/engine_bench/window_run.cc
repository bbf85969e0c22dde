#include "bench/engine_bench/window_run.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "bench/engine_bench/tally_check.h"
#include "index/node/scan_steps.h"

namespace lodgekv::bench {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

class Window {
 public:
  Window(const BenchOptions& options, EngineTarget& target) : options_(options), target_(target) {}

  absl::StatusOr<WindowResult> Run(const Subject& subject) {
    WindowResult result;
    result.id = subject.Id();
    result.keys = options_.keys;
    result.passed = options_.ops;
    const auto filled = Apply(Workload::kInsert, 0, options_.keys);
    if (!filled.ok()) return filled.status();
    for (uint64_t at = 0; at < options_.ops; at += kStep) {
      const uint64_t step = std::min(kStep, options_.ops - at);
      for (const auto& [workload, first] :
           {std::pair{Workload::kInsert, at + options_.keys}, std::pair{Workload::kDelete, at}}) {
        const auto seconds = Apply(workload, first, step);
        if (!seconds.ok()) return seconds.status();
        result.seconds += *seconds;
      }
    }
    LookAtStore(&result);
    return result;
  }

 private:
  static constexpr uint64_t kStep = 64;
  static constexpr int kScans = 1000;

  // Returns the seconds of the operations alone.
  absl::StatusOr<double> Apply(Workload workload, uint64_t first, uint64_t count) {
    double seconds = 0;
    for (uint64_t end = first + count; first < end; first += keys_.size()) {
      keys_.clear();
      for (uint64_t i = first; i < std::min(end, first + kStep); ++i) {
        keys_.push_back({i, Distribution::kSequential, false});
      }
      OpBatch batch;
      batch.workload = workload;
      batch.value_bytes = target_.value_bytes();
      target_.key_writer().Fill(keys_, &batch);
      const Clock::time_point begin = Clock::now();
      const Tally tally = target_.Run(batch, nullptr);
      seconds += SecondsSince(begin);
      const absl::Status status = CheckTally(target_, batch, tally);
      if (!status.ok()) return status;
    }
    return seconds;
  }

  void LookAtStore(WindowResult* result) {
    Engine& engine = target_.store().engine();
    result->memory = engine.GetMemoryUse();
    engine.VisitCounters([&](const CounterSample& counter) {
      // TLBtree's roots are nodes like its leaves.
      const bool leaves = counter.name == "leaves" || counter.name == "nodes";
      if (leaves) result->leaves = static_cast<uint64_t>(counter.value);
    });
    ScanOptions one;
    one.limit = 1;
    const uint64_t leaves = scanned_leaves;
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < kScans; ++i) {
      (void)engine.Scan(one, [](const ScanItem&) { return true; });
    }
    result->first_key_ns = SecondsSince(begin) * 1e9 / kScans;
    result->first_key_leaves = (scanned_leaves - leaves) / kScans;
  }

  const BenchOptions& options_;
  EngineTarget& target_;
  std::vector<KeyRef> keys_;
};

}  // namespace

absl::StatusOr<WindowResult> MeasureWindow(const BenchOptions& options, const Subject& subject,
                                           const std::string& pool_path) {
  auto target = EngineTarget::Create(subject, options.store, pool_path, options.seed,
                                     options.keys + options.ops);
  if (!target.ok()) return target.status();
  absl::StatusOr<WindowResult> result = Window(options, **target).Run(subject);
  const absl::Status closed = CloseOwnPool(**target, pool_path, options.keep_pool);
  if (result.ok() && !closed.ok()) result = closed;
  return result;
}

}  // namespace lodgekv::bench
