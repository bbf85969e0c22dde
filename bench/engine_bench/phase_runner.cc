#include "bench/engine_bench/phase_runner.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
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
    const size_t subject = i / plan.threads.size();
    result.live_keys = keys_.live();
    result.memory =
        subject < subjects_.size() ? subjects_[subject]->GetMemoryUse() : btree_->GetMemoryUse();
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
    if (btree_ != nullptr) {
      auto taken = RunTarget(*btree_, plan, shares, 1, Pass::kThroughput, &unused);
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
    for (const unsigned threads : plan.threads) {
      result.threads = threads;
      results->push_back(result);
    }
  }
  if (btree_ == nullptr) return;
  result.id = btree_->id();
  result.threads = 1;
  results->push_back(result);
}

absl::Status PhaseRunner::RunChunk(const PhasePlan& plan, Pass pass, unsigned chunk,
                                   std::vector<PhaseResult>* results) {
  const uint64_t total = pass == Pass::kThroughput ? plan.ops : plan.latency_ops;
  const uint64_t ops = PartOf(total, chunk, plan.chunks);
  if (ops == 0) return absl::OkStatus();
  const size_t variants = plan.threads.size();
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

// btree_map is timed with the first thread count's operations; those of the others are applied
// untimed if they change keys.
absl::StatusOr<PhaseRunner::Turn> PhaseRunner::TakeTurn(const PhasePlan& plan, Pass pass,
                                                        size_t variant, bool backwards,
                                                        uint64_t ops,
                                                        std::vector<PhaseResult>* results) {
  const unsigned threads = plan.threads[variant];
  const Shares shares = Draw(plan.phase, ops, threads);
  Turn turn;
  turn.subjects.resize(subjects_.size());
  const size_t targets = subjects_.size() + (btree_ == nullptr ? 0 : 1);
  for (size_t i = 0; i < targets; ++i) {
    const size_t target = backwards ? targets - 1 - i : i;
    if (target < subjects_.size()) {
      PhaseResult& result = (*results)[ResultOf(plan, target, variant)];
      auto taken = RunTarget(*subjects_[target], plan, shares, threads, pass, &result);
      if (!taken.ok()) return taken.status();
      turn.subjects[target] = *taken;
    } else if (variant == 0 || ChangesKeys(plan.phase.workload)) {
      PhaseResult unused;
      PhaseResult* result = variant == 0 ? &results->back() : &unused;
      auto taken = RunTarget(*btree_, plan, shares, 1, pass, result);
      if (!taken.ok()) return taken.status();
      turn.btree = *taken;
    }
  }
  keys_.Commit();
  if (auto status = CheckScans(turn); !status.ok()) return status;
  return turn;
}

// Equal scans over the same keys must visit the same number.
absl::Status PhaseRunner::CheckScans(const Turn& turn) const {
  if (!turn.btree) return absl::OkStatus();
  for (size_t i = 0; i < subjects_.size(); ++i) {
    const Target& subject = *subjects_[i];
    if (subject.discards() || subject.id().key_format != btree_->id().key_format) continue;
    if (turn.subjects[i].items == turn.btree->items) continue;
    return absl::DataLossError(absl::StrCat(subject.id().engine, ", scan: ", turn.subjects[i].items,
                                            " items visited, but there are ", turn.btree->items));
  }
  return absl::OkStatus();
}

absl::StatusOr<PhaseRunner::Taken> PhaseRunner::RunTarget(Target& target, const PhasePlan& plan,
                                                          const Shares& shares, unsigned threads,
                                                          Pass pass, PhaseResult* result) {
  std::vector<OpBatch> batches(shares.size());
  for (size_t i = 0; i < shares.size(); ++i) {
    batches[i].workload = plan.phase.workload;
    batches[i].generation = generation_;
    batches[i].value_bytes = target.value_bytes();
    target.key_writer().Fill(shares[i], &batches[i]);
  }
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
  const auto one = std::find(plan.threads.begin(), plan.threads.end(), 1U);
  const bool has_one = one != plan.threads.end();
  const size_t one_thread = has_one ? static_cast<size_t>(one - plan.threads.begin()) : 0;
  for (size_t variant = 0; variant < turns.size(); ++variant) {
    const Turn& turn = turns[variant];
    for (size_t subject = 0; subject < subjects_.size(); ++subject) {
      PhaseResult& result = (*results)[ResultOf(plan, subject, variant)];
      const double seconds = turn.subjects[subject].seconds;
      if (turn.btree && plan.threads[variant] == 1) {
        result.ratios_to_btree.push_back(seconds / turn.btree->seconds);
        result.cpu_ratios_to_btree.push_back(turn.subjects[subject].cpu_seconds /
                                             turn.btree->cpu_seconds);
      }
      if (subject > 0) result.ratios_to_first.push_back(seconds / turn.subjects[0].seconds);
      if (has_one && variant != one_thread) {
        result.speedups.push_back(turns[one_thread].subjects[subject].seconds / seconds);
      }
    }
  }
}

}  // namespace lodgekv::bench
