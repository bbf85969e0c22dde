#include "bench/engine_bench/tally_check.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace lodgekv::bench {
namespace {

std::string OutcomeText(Outcome outcome) {
  switch (outcome) {
    case Outcome::kOk: return "ok";
    case Outcome::kConditionFailed: return "condition failed";
    case Outcome::kAborted: return "aborted";
    case Outcome::kInvalidArgument: return "invalid argument";
    case Outcome::kPoolFull: return "pool full: give a larger --pool-size";
    case Outcome::kDataLoss: return "data loss";
    case Outcome::kMediumFailed: return "medium failed";
  }
  return "unknown outcome";
}

// The number of operations of a batch that must find their key.
uint64_t ExpectedFound(const OpBatch& batch) {
  uint64_t expected = 0;
  switch (batch.workload) {
    case Workload::kLoad:
    case Workload::kInsert:
    case Workload::kUpdate:
    case Workload::kReadAbsent:
    case Workload::kRecover:
    case Workload::kWindow:
    case Workload::kFull: break;
    case Workload::kRead:
    case Workload::kReadChained:
    case Workload::kDelete:
    case Workload::kScan: expected = batch.size(); break;
    case Workload::kMixed:
    case Workload::kMixed12:
      for (size_t i = 0; i < batch.size(); ++i) expected += AddsKey(batch.workload, i) ? 0 : 1;
      break;
  }
  return expected;
}

}  // namespace

absl::Status CheckTally(const Target& target, const OpBatch& batch, const Tally& tally) {
  const std::string who = absl::StrCat(target.id().engine, " (", target.id().key_format, "), ",
                                       std::string(WorkloadName(batch.workload)), ": ");
  const uint64_t count = batch.size();
  if (tally.failed > 0) {
    return absl::AbortedError(
        absl::StrCat(who, tally.failed, " of ", count,
                     " operations failed, the first with: ", OutcomeText(tally.first_failure)));
  }
  if (target.discards()) return absl::OkStatus();
  if (tally.wrong_values > 0) {
    return absl::DataLossError(
        absl::StrCat(who, tally.wrong_values, " values are not those that were written"));
  }
  if (const uint64_t expected = ExpectedFound(batch); tally.found != expected) {
    return absl::DataLossError(absl::StrCat(who, tally.found, " of ", count, " keys were found, ",
                                            expected, " should be"));
  }
  if (batch.workload == Workload::kScan && tally.items > kScanItems * count) {
    return absl::DataLossError(
        absl::StrCat(who, tally.items, " items in ", count, " scans of ", kScanItems));
  }
  return absl::OkStatus();
}

}  // namespace lodgekv::bench
