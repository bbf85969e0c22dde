// Executes the plan of `lodgectl bench` and measures.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "client/lodgectl/bench/plan.h"
#include "client/lodgectl/bench/tally.h"
#include "client/lodgectl/interruption.h"
#include "client/lodgekv_client.h"

namespace lodgekv::lodgectl {

struct BenchResult {
  BenchTally tally;
  double seconds = 0;  // to the last answer, at least to the end
  bool was_cut = false;
};

// Until the plan's time is over or a signal arrives, with a line of progress on a terminal. An
// error: the connections were not made.
absl::StatusOr<std::unique_ptr<BenchResult>> RunBench(const BenchPlan& plan,
                                                      const client::ClientOptions& client,
                                                      const Interruption& interruption);

}  // namespace lodgekv::lodgectl
