#include "client/lodgectl/bench/records.h"

#include <string>
#include <utility>

#include "client/lodgectl/bench/keys.h"
#include "client/lodgectl/load_pipeline.h"
#include "client/lodgectl/progress.h"
#include "client/workload/value_text.h"

namespace lodgekv::lodgectl {
namespace {

bool IsInvalid(const absl::Status& status) {
  return status.code() == absl::StatusCode::kInvalidArgument;
}

// The pool's format shows in what it takes: 8 bytes are a key of both, others only of `bytes`.
absl::Status ExplainRefusal(client::Client& client, const absl::Status& refusal) {
  if (!client.Get(BenchKeys(true, kFixed64Bytes)(0)).ok()) return refusal;
  if (!IsInvalid(client.Get(kBenchPrefix).status())) return refusal;
  return absl::FailedPreconditionError(
      "the keys of this pool have 8 bytes (key format fixed64), so there is no prefix for those of "
      "bench: with --fixed64 it writes and deletes keys from fffffffe00000000 to "
      "fffffffeffffffff (--hex), none of which must be yours");
}

}  // namespace

absl::StatusOr<bool> FindRecords(client::Client& client, const BenchPlan& plan) {
  if (plan.fixed64 && client.Get(kBenchPrefix).ok()) {
    return absl::FailedPreconditionError(
        "the keys of this pool are byte strings (key format bytes): leave out --fixed64");
  }
  const BenchKeys keys(plan.fixed64, plan.key_bytes);
  for (const uint64_t number : {uint64_t{0}, plan.keys - 1}) {
    const absl::StatusOr<client::GetResult> result = client.Get(keys(number));
    if (IsInvalid(result.status())) return ExplainRefusal(client, result.status());
    if (!result.ok()) return result.status();
    if (!result->found) return false;
  }
  return true;
}

absl::StatusOr<BenchRecordsDone> LoadRecords(client::Client& client, const BenchPlan& plan,
                                             const Interruption& interruption) {
  const BenchKeys keys(plan.fixed64, plan.key_bytes);
  workload::Random random(plan.seed);
  const workload::ValueText text(random, plan.value_bytes);
  const uint64_t record_bytes = plan.key_bytes + plan.value_bytes;
  Progress progress(plan.keys * record_bytes);
  LoadPipeline pipeline(client, {}, [](const auto&) {});
  for (uint64_t number = 0; number < plan.keys && interruption.signal() == 0; ++number) {
    const absl::Status status =
        pipeline.Add({keys(number), std::string(text.At(text.Draw(random))), {}});
    if (!status.ok()) break;
    progress.Update(pipeline.acknowledged() * record_bytes, pipeline.acknowledged());
  }
  if (absl::Status status = pipeline.Finish(); !status.ok()) return status;
  return BenchRecordsDone{pipeline.acknowledged(), interruption.signal() != 0};
}

absl::StatusOr<BenchRecordsDone> CleanRecords(client::Client& client, const BenchPlan& plan,
                                              const Interruption& interruption) {
  Progress progress(0);
  LoadPipeline pipeline(client, {}, [](const auto&) {});
  const auto remove = [&](const client::ScanItem& item) {
    progress.Update(0, pipeline.acknowledged());
    return interruption.signal() == 0 &&
           pipeline.Add({std::string(item.key), std::nullopt, {}}).ok();
  };
  client::ScanOptions scan;
  scan.prefix = BenchKeys(plan.fixed64, plan.key_bytes).prefix();
  scan.keys_only = true;
  const absl::Status scanned = client.Scan(scan, remove, nullptr);
  if (absl::Status status = pipeline.Finish(); !status.ok()) return status;
  if (!scanned.ok()) return scanned;
  return BenchRecordsDone{pipeline.acknowledged(), interruption.signal() != 0};
}

}  // namespace lodgekv::lodgectl
