#include "bench/engine_bench/phase_runner.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/engine_bench/background.h"
#include "bench/engine_bench/tally_check.h"

namespace lodgekv::bench {
namespace {

// The size of chunk `i` of `n` of `total`; chunks differ by at most one.
uint64_t PartOf(uint64_t total, uint64_t i, uint64_t n) {
  return total * (i + 1) / n - total * i / n;
}

CounterValues CountersOf(const Target& target) {
  CounterValues values;
  target.VisitCounters([&](const CounterSample& sample) {
    if (sample.kind == CounterKind::kCounter) values.emplace(sample.name, sample.value);
  });
  return values;
}

// Adds the increase of counters since `before`; gauges as they are.
void AddCounters(const Target& target, const CounterValues& before, CounterValues* sums) {
  target.VisitCounters([&](const CounterSample& sample) {
    double& value = (*sums)[std::string(sample.name)];
    if (sample.kind == CounterKind::kGauge) {
      value = sample.value;
    } else {
      value += sample.value - before.at(std::string(sample.name));
    }
  });
}

}  // namespace

absl::Status PhaseRunner::Run(const PhasePlan& plan, uint64_t keys,
                              std::vector<PhaseResult>* results) {
  Prepare(plan, keys, results);
  generation_ = static_cast<uint8_t>(1 + generation_ % kGenerationMask);
  for (const Pass pass : {Pass::kThroughput, Pass::kLatency}) {
    for (unsigned chunk = 0; chunk < plan.chunks; ++chunk) {
      if (auto status = RunChunk(plan, pass, chunk, results); !status.ok()) return status;
    }
  }
  for (size_t i = 0; i < results->size(); ++i) {
    PhaseResult& result = (*results)[i];
    const size_t rows_of_subjects = subjects_.size() * plan.variants.size();
    const Target* target = i < rows_of_subjects ? subjects_[i / plan.variants.size()]
                                                : baselines_[i - rows_of_subjects];
    result.live_keys = keys_.live();
    result.memory = target->GetMemoryUse();
  }
  return absl::OkStatus();
}

absl::Status PhaseRunner::AdoptLoaded(Distribution distribution, uint64_t keys) {
  constexpr uint64_t kAtATime = 1'000'000;
  PhasePlan plan;
  plan.phase = {Workload::kLoad, distribution};
  for (uint64_t done = 0; done < keys;) {
    const uint64_t ops = std::min(kAtATime, keys - done);
    const Shares shares = Draw(plan.phase, ops, 1);
    PhaseResult unused;
    for (Target* baseline : baselines_) {
      auto taken = RunTarget(*baseline, plan, {}, shares, Pass::kThroughput, &unused);
      if (!taken.ok()) return taken.status();
    }
    keys_.Commit();
    done += ops;
  }
  return absl::OkStatus();
}

void PhaseRunner::Prepare(const PhasePlan& plan, uint64_t keys,
                          std::vector<PhaseResult>* results) const {
  if (!results->empty()) return;
  PhaseResult result;
  result.workload = WorkloadName(plan.phase.workload);
  result.distribution = DistributionName(plan.phase.distribution);
  result.keys = keys;
  for (const Target* subject : subjects_) {
    result.id = subject->id();
    for (const Variant& variant : plan.variants) {
      result.threads = variant.threads;
      result.group = variant.group;
      results->push_back(result);
    }
  }
  result.threads = 1;
  result.group = {};
  for (const Target* baseline : baselines_) {
    result.id = baseline->id();
    results->push_back(result);
  }
}

absl::Status PhaseRunner::RunChunk(const PhasePlan& plan, Pass pass, unsigned chunk,
                                   std::vector<PhaseResult>* results) {
  const uint64_t total = pass == Pass::kThroughput ? plan.ops : plan.latency_ops;
  const uint64_t ops = PartOf(total, chunk, plan.chunks);
  if (ops == 0) return absl::OkStatus();
  const size_t variants = plan.variants.size();
  const bool backwards = chunk % 2 == 1;
  std::vector<Turn> turns(variants);
  for (size_t i = 0; i < variants; ++i) {
    const size_t variant = backwards ? variants - 1 - i : i;
    if (plan.phase.workload == Workload::kDelete && keys_.live() < ops) {
      return absl::FailedPreconditionError(absl::StrCat("only ", keys_.live(),
                                                        " keys are left to delete: give fewer "
                                                        "--ops or more --keys"));
    }
    auto turn = TakeTurn(plan, pass, variant, backwards, ops, results);
    if (!turn.ok()) return turn.status();
    turns[variant] = *std::move(turn);
  }
  if (pass == Pass::kThroughput) RecordRatios(plan, turns, results);
  return absl::OkStatus();
}

absl::StatusOr<PhaseRunner::Turn> PhaseRunner::TakeTurn(const PhasePlan& plan, Pass pass,
                                                        size_t variant, bool backwards,
                                                        uint64_t ops,
                                                        std::vector<PhaseResult>* results) {
  const Shares shares = Draw(plan.phase, ops, plan.variants[variant].threads);
  Turn turn;
  turn.subjects.resize(subjects_.size());
  turn.baselines.resize(baselines_.size());
  const size_t targets = subjects_.size() + baselines_.size();
  for (size_t i = 0; i < targets; ++i) {
    const size_t target = backwards ? targets - 1 - i : i;
    if (target >= subjects_.size()) {
      const size_t baseline = target - subjects_.size();
      auto status = RunBaseline(baseline, plan, pass, variant, shares, &turn, results);
      if (!status.ok()) return status;
      continue;
    }
    PhaseResult& result = (*results)[ResultOf(plan, target, variant)];
    auto taken = RunTarget(*subjects_[target], plan, plan.variants[variant], shares, pass, &result);
    if (!taken.ok()) return taken.status();
    turn.subjects[target] = *taken;
  }
  keys_.Commit();
  if (auto status = CheckScans(turn); !status.ok()) return status;
  return turn;
}

// A baseline has a row for the first variant's operations; with those of the others it only
// follows, where they change keys.
absl::Status PhaseRunner::RunBaseline(size_t baseline, const PhasePlan& plan, Pass pass,
                                      size_t variant, const Shares& shares, Turn* turn,
                                      std::vector<PhaseResult>* results) {
  if (variant != 0 && !ChangesKeys(plan.phase.workload)) return absl::OkStatus();
  PhaseResult unused;
  PhaseResult& row = (*results)[results->size() - baselines_.size() + baseline];
  auto taken =
      RunTarget(*baselines_[baseline], plan, {}, shares, pass, variant == 0 ? &row : &unused);
  if (!taken.ok()) return taken.status();
  turn->baselines[baseline] = *taken;
  return absl::OkStatus();
}

// The same scans over the same keys in the same order must visit as many.
absl::Status PhaseRunner::CheckScans(const Turn& turn) const {
  if (baselines_.empty() || !turn.baselines[0]) return absl::OkStatus();
  const uint64_t items = turn.baselines[0]->items;
  for (size_t i = 0; i < subjects_.size(); ++i) {
    const Target& subject = *subjects_[i];
    if (subject.discards() || subject.id().key_format != baselines_[0]->id().key_format) continue;
    if (turn.subjects[i].items == items) continue;
    return absl::DataLossError(absl::StrCat(subject.id().engine, ", scan: ", turn.subjects[i].items,
                                            " items visited, but there are ", items));
  }
  return absl::OkStatus();
}

std::vector<OpBatch> PhaseRunner::MakeBatches(const Target& target, const PhasePlan& plan,
                                              const Variant& variant, const Shares& shares) const {
  std::vector<OpBatch> batches(shares.size());
  for (size_t i = 0; i < shares.size(); ++i) {
    batches[i].workload = plan.phase.workload;
    batches[i].generation = generation_;
    batches[i].value_bytes = target.value_bytes();
    batches[i].group = variant.group;
    target.key_writer().Fill(shares[i], &batches[i]);
  }
  return batches;
}

absl::StatusOr<PhaseRunner::Taken> PhaseRunner::RunTarget(Target& target, const PhasePlan& plan,
                                                          const Variant& variant,
                                                          const Shares& shares, Pass pass,
                                                          PhaseResult* result) {
  const unsigned threads = variant.threads;
  const std::vector<OpBatch> batches = MakeBatches(target, plan, variant, shares);
  const bool timed_each = pass == Pass::kLatency;
  std::vector<LatencyProbe> probes(timed_each ? threads : 0, LatencyProbe(plan.op_end));
  std::vector<Tally> tallies(batches.size());
  const CounterValues counters = CountersOf(target);
  const Cost before = TotalCost();
  const RunTime time = workers_.Run(threads, [&](unsigned worker) {
    for (size_t i = worker; i < batches.size(); i += threads) {
      tallies[i] = target.Run(batches[i], timed_each ? &probes[worker] : nullptr);
    }
  });
  AwaitBackground(target);
  if (timed_each) {
    for (const LatencyProbe& probe : probes) result->latency.Merge(probe);
  } else {
    result->cost = result->cost + (TotalCost() - before);
    result->seconds += time.seconds;
    result->thread_seconds += time.thread_seconds;
    result->cpu_seconds += time.cpu_seconds;
    AddCounters(target, counters, &result->counters);
    for (const OpBatch& batch : batches) result->ops += batch.size();
  }
  Taken taken{.seconds = time.seconds, .cpu_seconds = time.cpu_seconds};
  for (size_t i = 0; i < batches.size(); ++i) {
    if (auto status = CheckTally(target, batches[i], tallies[i]); !status.ok()) return status;
    taken.items += tallies[i].items;
  }
  return taken;
}

PhaseRunner::Shares PhaseRunner::Draw(const Phase& phase, uint64_t ops, unsigned threads) {
  Shares shares(threads);
  for (unsigned t = 0; t < threads; ++t) shares[t].reserve(ops / threads + 1);
  // Distributed one by one, so that sequential keys ascend over all threads together.
  for (uint64_t i = 0; i < ops; ++i) shares[i % threads].push_back(DrawKey(phase, i / threads));
  return shares;
}

KeyRef PhaseRunner::DrawKey(const Phase& phase, size_t i) {
  if (AddsKey(phase.workload, i)) return keys_.NewKey(phase.distribution);
  if (phase.workload == Workload::kReadAbsent) return keys_.PickAbsent(phase.distribution);
  if (phase.workload == Workload::kDelete) return keys_.TakeLive(phase.distribution);
  return keys_.PickLive(phase.distribution);
}

void PhaseRunner::RecordRatios(const PhasePlan& plan, const std::vector<Turn>& turns,
                               std::vector<PhaseResult>* results) const {
  const auto turn_of = [&](const Variant& wanted) -> const Turn* {
    const auto found = std::find(plan.variants.begin(), plan.variants.end(), wanted);
    return found == plan.variants.end() ? nullptr : &turns[found - plan.variants.begin()];
  };
  for (size_t v = 0; v < turns.size(); ++v) {
    const Variant& variant = plan.variants[v];
    const Turn* lone = variant.group.size == 1 ? nullptr : turn_of({variant.threads, {}});
    const Turn* one_thread = variant.threads == 1 ? nullptr : turn_of({1, variant.group});
    for (size_t subject = 0; subject < subjects_.size(); ++subject) {
      PhaseResult& result = (*results)[ResultOf(plan, subject, v)];
      const Taken& taken = turns[v].subjects[subject];
      if (variant.threads == 1) RecordBaselineRatios(taken, turns[v], &result);
      if (subject > 0) {
        result.ratios_to_first.push_back(taken.seconds / turns[v].subjects[0].seconds);
      }
      if (lone != nullptr) {
        result.ratios_to_lone.push_back(taken.seconds / lone->subjects[subject].seconds);
      }
      if (one_thread != nullptr) {
        result.speedups.push_back(one_thread->subjects[subject].seconds / taken.seconds);
      }
    }
  }
}

void PhaseRunner::RecordBaselineRatios(const Taken& taken, const Turn& turn,
                                       PhaseResult* result) const {
  result->ratios_to_btrees.resize(baselines_.size());
  for (size_t i = 0; i < baselines_.size(); ++i) {
    if (!turn.baselines[i]) continue;
    BaselineRatios& ratios = result->ratios_to_btrees[i];
    ratios.baseline = baselines_[i]->id().engine;
    ratios.times.push_back(taken.seconds / turn.baselines[i]->seconds);
    ratios.cpu_times.push_back(taken.cpu_seconds / turn.baselines[i]->cpu_seconds);
  }
}

}  // namespace lodgekv::bench
