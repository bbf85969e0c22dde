// Keeps puts in flight against one server, from one thread.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "bench/server_bench/put_plan.h"
#include "bench/server_bench/put_recorder.h"
#include "bench/server_bench/put_source.h"

namespace lodgekv::server_bench {

// The time without an answer that counts as a failure.
inline constexpr std::chrono::seconds kAnswerTimeout{30};

class PutDriver {
 public:
  virtual ~PutDriver() = default;
  // Connects, and waits until that is done.
  virtual absl::Status Connect() = 0;
  // Sends the next put for each answered one until the recorder takes no more, then waits for the
  // rest. Ends at the first failed put.
  virtual absl::Status Run(PutSource& source, PutRecorder& recorder) = 0;
};

// A plain stub of gRPC with one completion queue.
std::unique_ptr<PutDriver> MakeLodgekvDriver(const PutPlan& plan, const PutShare& share);
std::unique_ptr<PutDriver> MakeEtcdDriver(const PutPlan& plan, const PutShare& share);
// SET over plain sockets, pipelined if a connection has more than one in flight.
std::unique_ptr<PutDriver> MakeRedisDriver(const PutPlan& plan, const PutShare& share);

}  // namespace lodgekv::server_bench
