// The measured loop. Ops is one thread's view of a target, with Put, Read, Delete and Scan of the
// i-th operation of a batch; Probe is called before and after each. A template, so that neither the
// engine nor the baseline pays for the other's convenience.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "bench/engine_bench/op_batch.h"
#include "bench/engine_bench/tsc_clock.h"
#include "bench/engine_bench/workload.h"
#include "client/workload/histogram.h"
#include "index/cost.h"
#include "index/engine.h"

namespace lodgekv::bench {

// The result of a batch, to be compared with the expected one.
struct Tally {
  uint64_t failed = 0;  // operations with another outcome than kOk
  Outcome first_failure = Outcome::kOk;
  uint64_t found = 0;         // reads and deletes that found their key, scans that began at it
  uint64_t wrong_values = 0;  // values that do not belong to their key
  uint64_t items = 0;         // scanned

  void Count(Outcome outcome) {
    if (outcome == Outcome::kOk) [[likely]]
      return;
    if (failed++ == 0) first_failure = outcome;
  }
  void Merge(const Tally& other);
};

// Of a throughput pass.
struct NoProbe {
  void Before() {}
  void After() {}
};

// Of a latency pass: ticks of each operation, and the most lines that one of them flushed.
class LatencyProbe {
 public:
  explicit LatencyProbe(OpEnd end = OpEnd::kDrained)
      : end_(end), overhead_(TscClock::Get().overhead_ticks(end)) {}

  void Before() {
    lines_before_ = ThreadCost().lines_flushed;
    begin_ = TscClock::Now(end_);
  }
  void After() {
    const uint64_t ticks = TscClock::Now(end_) - begin_;
    histogram_.Add(ticks > overhead_ ? ticks - overhead_ : 0);
    max_lines_ = std::max(max_lines_, ThreadCost().lines_flushed - lines_before_);
  }
  void Merge(const LatencyProbe& other) {
    histogram_.Merge(other.histogram_);
    max_lines_ = std::max(max_lines_, other.max_lines_);
  }

  const workload::Histogram& ticks() const { return histogram_; }
  uint64_t max_lines() const { return max_lines_; }

 private:
  const OpEnd end_;
  const uint64_t overhead_;
  uint64_t begin_ = 0;
  uint64_t lines_before_ = 0;
  uint64_t max_lines_ = 0;
  workload::Histogram histogram_;
};

template <class Probe, class Operation>
void ForEach(size_t count, Probe& probe, Operation operation) {
  for (size_t i = 0; i < count; ++i) {
    probe.Before();
    operation(i);
    probe.After();
  }
}

// The same with one call for each group of a batch, which Ops has as PutGroup, ReadGroup and
// DeleteGroup of operations begin to end; Probe is told of calls.
template <class Ops, class Probe>
void RunGroups(Ops& ops, const OpBatch& batch, Probe& probe) {
  for (size_t begin = 0; begin < batch.size();) {
    const size_t end = std::min<size_t>(begin + batch.group.size, batch.size());
    probe.Before();
    if (batch.workload == Workload::kDelete) {
      ops.DeleteGroup(begin, end);
    } else if (ChangesKeys(batch.workload)) {
      ops.PutGroup(begin, end);
    } else {
      ops.ReadGroup(begin, end);
    }
    probe.After();
    begin = end;
  }
}

template <class Ops, class Probe>
void RunBatch(Ops& ops, const OpBatch& batch, Probe& probe) {
  const size_t count = batch.size();
  switch (batch.workload) {
    case Workload::kLoad:
    case Workload::kInsert:
    case Workload::kUpdate: return ForEach(count, probe, [&](size_t i) { ops.Put(i); });
    case Workload::kRead:
    case Workload::kReadAbsent: return ForEach(count, probe, [&](size_t i) { ops.Read(i); });
    case Workload::kReadChained:
      return ForEach(count, probe, [&](size_t i) { ops.ReadChained(i); });
    case Workload::kDelete: return ForEach(count, probe, [&](size_t i) { ops.Delete(i); });
    case Workload::kScan: return ForEach(count, probe, [&](size_t i) { ops.Scan(i); });
    case Workload::kMixed:
    case Workload::kMixed12:
      return ForEach(count, probe, [&](size_t i) {
        if (AddsKey(batch.workload, i)) {
          ops.Put(i);
        } else {
          ops.Read(i);
        }
      });
    case Workload::kRecover:
    case Workload::kWindow:
    case Workload::kFull: return;
  }
}

}  // namespace lodgekv::bench
