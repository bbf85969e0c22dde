// One thread's part of a run.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "client/lodgectl/bench/pace.h"
#include "client/lodgectl/bench/plan.h"
#include "client/lodgectl/bench/tally.h"
#include "client/lodgekv_client.h"
#include "client/workload/insert_sequence.h"

namespace lodgekv::lodgectl {

// In a closed loop as many calls are in flight as the share says, each begun when the one before is
// answered. In an open loop each is due at its time, and its latency counts from then; it waits if
// as many as the share says are in flight.
//
// After the end of the run nothing is begun, and what is in flight is awaited; but if the run was
// cut short only for as long as kGrace.
class BenchLane {
 public:
  virtual ~BenchLane() = default;

  // Waits until all connections are made.
  virtual absl::Status Connect() = 0;
  // Until everything that was sent has been counted.
  virtual void Run(BenchSpan& span) = 0;

  const BenchTally& tally() const { return tally_; }

 protected:
  BenchTally tally_;
};

inline constexpr absl::Duration kGrace = absl::Seconds(1);
// After a call found no server: else a closed loop did nothing but count errors.
inline constexpr absl::Duration kRest = absl::Milliseconds(10);

struct BenchLaneOptions {
  const BenchPlan& plan;
  BenchShare share;
  client::ClientOptions client;
  workload::InsertSequence& inserts;
};

// Of single calls and of batches.
std::unique_ptr<BenchLane> MakeCallLane(const BenchLaneOptions& options);
// Of messages of a session.
std::unique_ptr<BenchLane> MakeSessionLane(const BenchLaneOptions& options);

}  // namespace lodgekv::lodgectl
