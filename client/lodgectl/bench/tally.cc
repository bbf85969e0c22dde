#include "client/lodgectl/bench/tally.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "client/lodgekv_client.h"

namespace lodgekv::lodgectl {

void BenchTally::Answered(const Answer& answer, uint64_t now_ns) {
  const auto operation = static_cast<size_t>(answer.operation);
  latencies_[operation].Add(now_ns - answer.begin_ns);
  ++calls_[operation];
  operations_ += answer.operations;
  not_found_ += answer.not_found;
  last_ns_ = now_ns;
  live_.operations.store(operations_, std::memory_order_relaxed);
}

void BenchTally::Failed(const absl::Status& status) {
  ++errors_[ErrorName(status)];
  live_.errors.fetch_add(1, std::memory_order_relaxed);
}

void BenchTally::OperationFailed(const absl::Status& status) {
  ++operation_errors_[ErrorName(status)];
  live_.errors.fetch_add(1, std::memory_order_relaxed);
}

void BenchTally::NotSent(workload::YcsbOperation operation, uint64_t waited_ns) {
  ++not_sent_;
  latencies_[static_cast<size_t>(operation)].Add(waited_ns);
}

void BenchTally::Merge(const BenchTally& other) {
  for (size_t i = 0; i < latencies_.size(); ++i) {
    latencies_[i].Merge(other.latencies_[i]);
    calls_[i] += other.calls_[i];
  }
  for (const auto& [name, count] : other.errors_) errors_[name] += count;
  for (const auto& [name, count] : other.operation_errors_) operation_errors_[name] += count;
  operations_ += other.operations_;
  not_found_ += other.not_found_;
  unanswered_ += other.unanswered_;
  not_sent_ += other.not_sent_;
  last_ns_ = std::max(last_ns_, other.last_ns_);
}

workload::Histogram BenchTally::AllLatencies() const {
  workload::Histogram all;
  for (const workload::Histogram& one : latencies_) all.Merge(one);
  return all;
}

uint64_t BenchTally::AllCalls() const {
  return std::accumulate(calls_.begin(), calls_.end(), uint64_t{0});
}

std::string ErrorName(const absl::Status& status) {
  const std::string reason = client::ErrorOf(status).reason;
  const std::string code = absl::StatusCodeToString(status.code());
  return reason.empty() ? code : absl::StrCat(code, " (", reason, ")");
}

uint64_t Sum(const std::map<std::string, uint64_t>& counts) {
  uint64_t sum = 0;
  for (const auto& [name, count] : counts) sum += count;
  return sum;
}

}  // namespace lodgekv::lodgectl
