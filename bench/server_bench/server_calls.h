// Calls of one kind to one server, over connections of the lean client, from one thread.
#pragma once

#include <poll.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "bench/server_bench/http2_connection.h"
#include "bench/server_bench/request_source.h"
#include "client/workload/arrival_schedule.h"
#include "client/workload/histogram.h"

namespace lodgekv::server_bench {

class ServerCalls {
 public:
  using Request = absl::FunctionRef<std::string()>;

  absl::Status Connect(const LocalAddress& address, unsigned connections, CallKind kind,
                       size_t least_answer_bytes);

  // A closed loop: keeps calls in flight until more() is false, and then awaits all answers.
  absl::Status Run(unsigned in_flight, Request request, absl::FunctionRef<bool()> more);
  // An open loop: makes each call when it is due, and then awaits all answers.
  absl::Status Run(workload::ArrivalSchedule schedule, Request request);
  // Keeps calls in flight, and abandons them at the end.
  absl::Status RunUntil(uint64_t end_ns, unsigned in_flight, Request request);

  // Of the answered calls, nanoseconds; since the last Forget.
  const workload::Histogram& latencies() const { return latencies_; }
  void Forget() {
    latencies_ = {};
    calls_by_connection_.assign(connections_.size(), 0);
  }
  uint64_t answer_bytes() const;
  // Answered calls of each connection, likewise.
  const std::vector<uint64_t>& calls_by_connection() const { return calls_by_connection_; }

 private:
  absl::Status StartCalls(unsigned in_flight, Request request);
  absl::Status SendAll();
  // Makes the calls that are due, the connections taking turns.
  absl::Status CallDue(workload::ArrivalSchedule& schedule, Request request);
  // Waits for answers, at most until the time.
  void Await(uint64_t until_ns);
  // Receives what Await found, and makes a new call for each answer while there are more.
  absl::Status ReceiveAll(Request request, absl::FunctionRef<bool()> more);

  std::vector<std::unique_ptr<Http2Connection>> connections_;
  std::vector<pollfd> polled_;
  uint64_t open_ = 0;
  size_t turn_ = 0;
  workload::Histogram latencies_;
  std::vector<uint64_t> calls_by_connection_;
};

}  // namespace lodgekv::server_bench
