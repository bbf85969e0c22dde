#include "bench/beside_background/turns.h"

#include <algorithm>
#include <chrono>

#include "bench/engine_bench/background.h"
#include "bench/engine_bench/tally_check.h"

namespace lodgekv::bench {

// Lines are counted insert by insert, which adds some 40 ns to each.
absl::StatusOr<Turns::Done> Turns::Apply(Workload workload, uint64_t count) {
  drawn_.clear();
  while (drawn_.size() < count) {
    drawn_.push_back(workload == Workload::kInsert ? keys_.NewKey(Distribution::kUniform)
                                                   : keys_.PickLive(Distribution::kUniform));
  }
  OpBatch batch;
  batch.workload = workload;
  batch.value_bytes = target_.value_bytes();
  target_.key_writer().Fill(drawn_, &batch);
  LatencyProbe probe;
  const auto begin = std::chrono::steady_clock::now();
  const Tally tally = target_.Run(batch, workload == Workload::kInsert ? &probe : nullptr);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  Done done{.seconds = took.count(), .most_lines = probe.max_lines()};
  if (auto status = CheckTally(target_, batch, tally); !status.ok()) return status;
  keys_.Commit();
  return done;
}

absl::Status Turns::Load(uint64_t keys) {
  for (uint64_t left = keys; left > 0;) {
    const uint64_t count = std::min<uint64_t>(left, 4096);
    if (auto done = Apply(Workload::kInsert, count); !done.ok()) return done.status();
    left -= count;
  }
  return absl::OkStatus();
}

absl::Status Turns::Run(uint64_t inserts) {
  for (uint64_t i = 0; i < inserts; i += kInserts) {
    const bool before = BackgroundWorks(target_);
    const auto inserted = Apply(Workload::kInsert, kInserts);
    if (!inserted.ok()) return inserted.status();
    const auto read = Apply(Workload::kRead, kReads);
    if (!read.ok()) return read.status();
    if (BackgroundWorks(target_) != before) continue;
    TurnSums& sums = before ? at_work_ : idle_;
    ++sums.turns;
    sums.inserts += kInserts;
    sums.reads += kReads;
    sums.insert_seconds += inserted->seconds;
    sums.read_seconds += read->seconds;
    sums.most_lines = std::max(sums.most_lines, inserted->most_lines);
  }
  return absl::OkStatus();
}

}  // namespace lodgekv::bench
