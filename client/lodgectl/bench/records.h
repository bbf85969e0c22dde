// The records of `lodgectl bench`: looked for, written, deleted. All lie under the bench's prefix.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/lodgectl/bench/plan.h"
#include "client/lodgectl/interruption.h"
#include "client/lodgekv_client.h"

namespace lodgekv::lodgectl {

// Whether the first and the last record of the plan are there. FAILED_PRECONDITION: the pool's keys
// are not of the format that the plan is for.
absl::StatusOr<bool> FindRecords(client::Client& client, const BenchPlan& plan);

struct BenchRecordsDone {
  uint64_t count = 0;
  bool was_interrupted = false;
};

// Writes all records of the plan; returns how many.
absl::StatusOr<BenchRecordsDone> LoadRecords(client::Client& client, const BenchPlan& plan,
                                             const Interruption& interruption);

// Deletes every key of the bench, those of other plans, too.
absl::StatusOr<BenchRecordsDone> CleanRecords(client::Client& client, const BenchPlan& plan,
                                              const Interruption& interruption);

}  // namespace lodgekv::lodgectl
