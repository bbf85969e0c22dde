// Executes a plan of puts.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "bench/server_bench/put_plan.h"
#include "bench/server_bench/put_recorder.h"
#include "client/workload/histogram.h"

namespace lodgekv::server_bench {

struct PutResult {
  workload::Histogram latencies;  // nanoseconds
  double seconds = 0;             // from the end of the warm-up
  std::vector<PutSample> samples;

  double PutsPerSecond() const {
    return seconds > 0 ? static_cast<double>(latencies.total()) / seconds : 0;
  }
};

// Of a phase that begins now, for one of so many threads.
PutRecorder::Limits LimitsFromNow(const PutPlan& plan, size_t threads);
// Seconds that count of a phase whose last answer that counts came then.
double SecondsOf(const PutPlan& plan, const PutRecorder::Limits& limits, uint64_t last_ns);

absl::StatusOr<PutResult> RunPuts(const PutPlan& plan);

}  // namespace lodgekv::server_bench
