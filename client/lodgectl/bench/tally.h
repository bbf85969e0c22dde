// What a thread of a run has counted: latencies of calls that were answered well, by operation, and
// errors by what they say.
//
// INVARIANTS
// - calls + errors + unanswered = calls that were sent; with those that were not sent, all that
//   were due.
// - One thread at a time changes it; live() may be read by others meanwhile.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "client/workload/histogram.h"
#include "client/workload/ycsb_workload.h"

namespace lodgekv::lodgectl {

class BenchTally {
 public:
  struct Answer {
    workload::YcsbOperation operation = workload::YcsbOperation::kRead;
    uint64_t begin_ns = 0;
    uint64_t operations = 1;  // that the call had, items of a scan
    uint64_t not_found = 0;   // of them
  };

  struct Live {
    std::atomic<uint64_t> operations = 0;
    std::atomic<uint64_t> errors = 0;
  };

  void Answered(const Answer& answer, uint64_t now_ns);
  void Failed(const absl::Status& status);
  // Operations of a call that was answered; they are no calls.
  void OperationFailed(const absl::Status& status);
  // It was in flight when the run was interrupted.
  void Unanswered() { ++unanswered_; }
  // It was due, and had waited so long when the run ended. That counts as its latency, which is at
  // least this: leaving it out would make a slow server look better.
  void NotSent(workload::YcsbOperation operation, uint64_t waited_ns);
  void Merge(const BenchTally& other);

  const workload::Histogram& latencies(workload::YcsbOperation operation) const {
    return latencies_[static_cast<size_t>(operation)];
  }
  workload::Histogram AllLatencies() const;
  const std::map<std::string, uint64_t>& errors() const { return errors_; }
  const std::map<std::string, uint64_t>& operation_errors() const { return operation_errors_; }
  uint64_t calls(workload::YcsbOperation operation) const {
    return calls_[static_cast<size_t>(operation)];
  }
  uint64_t AllCalls() const;
  uint64_t operations() const { return operations_; }
  uint64_t not_found() const { return not_found_; }
  uint64_t unanswered() const { return unanswered_; }
  uint64_t not_sent() const { return not_sent_; }
  // When the last answer came; 0: none did.
  uint64_t last_ns() const { return last_ns_; }
  const Live& live() const { return live_; }

 private:
  std::array<workload::Histogram, workload::kYcsbOperations> latencies_;  // nanoseconds
  std::array<uint64_t, workload::kYcsbOperations> calls_{};
  std::map<std::string, uint64_t> errors_;
  std::map<std::string, uint64_t> operation_errors_;
  uint64_t operations_ = 0;
  uint64_t not_found_ = 0;
  uint64_t unanswered_ = 0;
  uint64_t not_sent_ = 0;
  uint64_t last_ns_ = 0;
  Live live_;
};

// Its code, and the server's reason: "RESOURCE_EXHAUSTED (POOL_FULL)".
std::string ErrorName(const absl::Status& status);

uint64_t Sum(const std::map<std::string, uint64_t>& counts);

}  // namespace lodgekv::lodgectl
