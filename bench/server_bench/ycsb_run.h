// Executes a core workload of YCSB against a server of LodgeKV.
#pragma once

#include <array>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/server_bench/ycsb_plan.h"
#include "client/workload/histogram.h"
#include "client/workload/insert_sequence.h"
#include "client/workload/ycsb_workload.h"

namespace lodgekv::server_bench {

struct YcsbResult {
  std::array<workload::Histogram, workload::kYcsbOperations> each;  // nanoseconds
  workload::Histogram all;
  double seconds = 0;
};

// Puts the records that a workload finds.
absl::Status LoadYcsb(const YcsbPlan& plan);

// Ends at the first operation that fails, or does not find what is there.
absl::StatusOr<YcsbResult> RunYcsb(const YcsbPlan& plan, workload::InsertSequence& inserts);

}  // namespace lodgekv::server_bench
