#include "bench/engine_bench/plan.h"

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace lodgekv::bench {
namespace {

// Operations prepared at a time: limits the benchmark's own memory.
constexpr uint64_t kMaxChunkOps = 1'000'000;
// One of so many keys of the load is inserted in the latency pass.
constexpr uint64_t kLoadLatencyShare = 10;

std::vector<Variant> VariantsOf(Workload workload, const BenchOptions& options) {
  std::vector<Variant> variants;
  for (const unsigned threads : options.threads) {
    bool grouped = false;
    for (const Grouping& group : options.groups) {
      if (!CanGroup(workload, group)) continue;
      variants.push_back({threads, group});
      grouped = true;
    }
    if (!grouped) variants.push_back({threads, {}});
  }
  return variants;
}

PhasePlan PlanPhase(const Phase& phase, const BenchOptions& options) {
  PhasePlan plan;
  plan.phase = phase;
  plan.variants = VariantsOf(phase.workload, options);
  plan.ops = options.ops;
  plan.latency_ops = options.latency_ops;
  plan.op_end = options.op_end;
  if (phase.workload == Workload::kLoad) {
    plan.variants.resize(1);
    plan.latency_ops = std::min(options.latency_ops, options.keys / kLoadLatencyShare);
    plan.ops = options.keys - plan.latency_ops;
  }
  const uint64_t full_chunks = (plan.ops + kMaxChunkOps - 1) / kMaxChunkOps;
  plan.chunks = std::max(options.chunks, static_cast<unsigned>(full_chunks));
  return plan;
}

// An upper bound: shares of a mix are rounded up for each chunk and thread.
uint64_t KeysAdded(const PhasePlan& plan) {
  const uint64_t ops = plan.ops + plan.latency_ops;
  const size_t period = MixPeriod(plan.phase.workload);
  uint64_t added = 0;
  for (const Variant& variant : plan.variants) {
    if (period != 0) {
      added += ops / period + uint64_t{2} * plan.chunks * variant.threads;
    } else if (AddsKey(plan.phase.workload, 0)) {
      added += ops;
    }
  }
  return added;
}

absl::Status CheckSequential(const PhasePlan& plan, bool has_sequential) {
  if (plan.phase.distribution != Distribution::kSequential || has_sequential ||
      !(PicksKeys(plan.phase.workload) || plan.phase.workload == Workload::kReadAbsent)) {
    return absl::OkStatus();
  }
  const std::string name(WorkloadName(plan.phase.workload));
  return absl::FailedPreconditionError(
      absl::StrCat("--workload: ", name,
                   ":sequential needs keys that were inserted in sequence; "
                   "load them so with load:sequential"));
}

}  // namespace

absl::StatusOr<Plan> MakePlan(const BenchOptions& options) {
  Plan plan;
  if (!options.Measures(Workload::kLoad)) {
    plan.phases.push_back(PlanPhase({Workload::kLoad, options.load_distribution}, options));
    plan.phases.back().reported = false;
  }
  for (const Phase& phase : options.phases) {
    if (!RunsAlone(phase.workload)) plan.phases.push_back(PlanPhase(phase, options));
  }
  uint64_t deleted = 0;
  bool has_sequential = false;
  for (const PhasePlan& phase : plan.phases) {
    if (auto status = CheckSequential(phase, has_sequential); !status.ok()) return status;
    const uint64_t added = KeysAdded(phase);
    plan.capacity += added;
    if (added > 0) has_sequential |= phase.phase.distribution == Distribution::kSequential;
    if (phase.phase.workload != Workload::kDelete) continue;
    const uint64_t wanted = (phase.ops + phase.latency_ops) * phase.variants.size();
    deleted += wanted;
    if (deleted < plan.capacity) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("--workload: delete takes ", wanted,
                     " keys (--ops and --latency-ops for each thread count and group), "
                     "which leaves none of ",
                     plan.capacity, ": give fewer --ops or more --keys"));
  }
  return plan;
}

uint64_t PoolBytesFor(const Subject& subject, uint64_t capacity, unsigned bulk_load_fill) {
  constexpr uint64_t kBase = uint64_t{512} << 20;
  // A slot in a half-full leaf, and its share of the leaf's header and of the logs.
  constexpr uint64_t kSlotOfHalfFull = 56;
  const uint64_t emptier = bulk_load_fill == 0 ? 1 : std::max<uint64_t>(1, 50 / bulk_load_fill);
  const uint64_t slot = kSlotOfHalfFull * emptier;
  constexpr uint64_t kRecordHeader = 32;
  if (subject.key_format == KeyFormat::kFixed64) return kBase + capacity * slot;
  const uint64_t record = kRecordHeader + subject.value_bytes +
                          KeyWriter::TypicalBytes(subject.key_format, subject.key_shape);
  // Size classes are up to a quarter larger than their content.
  return kBase + capacity * (slot + record + record / 3);
}

}  // namespace lodgekv::bench
