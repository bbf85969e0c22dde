#include "client/lodgectl/bench/plan.h"

#include <algorithm>
#include <array>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/lodgectl/bench/keys.h"

namespace lodgekv::lodgectl {
namespace {

using workload::YcsbDistribution;

constexpr uint64_t kKeys = 100'000;
constexpr size_t kKeyBytes = 32;
constexpr size_t kValueBytes = 100;
// Ten fields of 100 bytes each, in YCSB.
constexpr size_t kYcsbValueBytes = 1'000;
constexpr uint64_t kConnections = 4;
constexpr uint64_t kInFlight = 16;
// Of an open loop: enough that calls wait for the server, and not for each other.
constexpr uint64_t kInFlightAtRate = 1'000;
constexpr uint64_t kBatch = 100;
constexpr absl::Duration kDuration = absl::Seconds(10);
// Numbers of keys for each that is loaded: what is inserted later has room, too.
constexpr uint64_t kRoom = 16;

struct Named {
  absl::string_view name;
  BenchCalls calls;
  std::array<unsigned, workload::kYcsbOperations> percent;  // as in YcsbWorkload
};

constexpr std::array<Named, 7> kWorkloads{{
    {"get", BenchCalls::kSingle, {100, 0, 0, 0, 0}},
    {"put", BenchCalls::kSingle, {0, 100, 0, 0, 0}},
    {"mixed", BenchCalls::kSingle, {50, 50, 0, 0, 0}},
    {"batch-get", BenchCalls::kBatch, {100, 0, 0, 0, 0}},
    {"batch-write", BenchCalls::kBatch, {0, 100, 0, 0, 0}},
    {"session", BenchCalls::kSession, {0, 100, 0, 0, 0}},
    {"scan", BenchCalls::kSingle, {0, 0, 0, 100, 0}},
}};
constexpr absl::string_view kWorkloadNames =
    "get, put, mixed, batch-get, batch-write, session, scan, ycsb-a to ycsb-f";

absl::Status Wrong(absl::string_view option, absl::string_view value, absl::string_view right) {
  return absl::InvalidArgumentError(absl::StrCat(option, ": '", value, "' ", right));
}

bool IsYcsb(absl::string_view name) {
  return name.size() == 6 && absl::StartsWith(name, "ycsb-") && name[5] >= 'a' && name[5] <= 'f';
}

absl::Status SetWorkload(const std::string& name, BenchPlan& plan) {
  plan.name = name;
  if (IsYcsb(name)) {
    plan.mix = workload::WorkloadOf(name[5]);
    return absl::OkStatus();
  }
  for (const Named& known : kWorkloads) {
    if (known.name != name) continue;
    plan.mix.percent = known.percent;
    plan.mix.distribution = YcsbDistribution::kUniform;
    plan.calls = known.calls;
    return absl::OkStatus();
  }
  return Wrong("--workload", name, absl::StrCat("is none of ", kWorkloadNames));
}

absl::Status SetDistribution(const std::string& name, BenchPlan& plan) {
  if (name.empty()) return absl::OkStatus();
  for (const auto known :
       {YcsbDistribution::kUniform, YcsbDistribution::kZipfian, YcsbDistribution::kLatest}) {
    if (NameOf(known) != name) continue;
    plan.mix.distribution = known;
    return absl::OkStatus();
  }
  return Wrong("--distribution", name, "is none of uniform, zipfian, latest");
}

// What a run alone needs, given without one.
absl::Status RefuseWithoutRun(const BenchOptions& options) {
  if (!options.load && !options.clean) {
    return absl::InvalidArgumentError(absl::StrCat("--workload is missing: one of ", kWorkloadNames,
                                                   "; or --load or --clean, alone or with it"));
  }
  const std::vector<std::pair<absl::string_view, bool>> given{
      {"--distribution", !options.distribution.empty()},
      {"--connections", options.connections.has_value()},
      {"--in-flight", options.in_flight.has_value()},
      {"--threads", options.threads.has_value()},
      {"--rate", options.rate.has_value()},
      {"--batch", options.batch.has_value()},
      {"--duration", options.duration.has_value()}};
  for (const auto& [name, is_given] : given) {
    if (!is_given) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name, " needs a --workload: without one nothing is measured"));
  }
  return absl::OkStatus();
}

absl::Status SetRecords(const BenchOptions& options, BenchPlan& plan) {
  plan.fixed64 = options.fixed64;
  plan.keys = options.keys.value_or(kKeys);
  plan.key_bytes = options.key_bytes.value_or(options.fixed64 ? kFixed64Bytes : kKeyBytes);
  const size_t usual = IsYcsb(plan.name) ? kYcsbValueBytes : kValueBytes;
  plan.value_bytes = options.value_bytes.value_or(options.fixed64 ? kFixed64Bytes : usual);
  if (options.fixed64) {
    if (plan.key_bytes != kFixed64Bytes) {
      return Wrong("--key-bytes", absl::StrCat(plan.key_bytes), "is not 8, as --fixed64 says");
    }
    if (plan.value_bytes != kFixed64Bytes) {
      return Wrong("--value-bytes", absl::StrCat(plan.value_bytes), "is not 8, as --fixed64 says");
    }
  } else if (plan.key_bytes <= kBenchPrefix.size()) {
    return Wrong("--key-bytes", absl::StrCat(plan.key_bytes),
                 absl::StrCat("is too short: a key begins with ", std::string(kBenchPrefix), ", ",
                              kBenchPrefix.size(), " bytes"));
  }
  const uint64_t most = BenchKeys(plan.fixed64, plan.key_bytes).most_keys();
  if (most != 0 && plan.keys > most / kRoom) {
    return Wrong(
        "--keys", absl::StrCat(plan.keys),
        absl::StrCat("is more than ", most / kRoom, ", which keys of ", plan.key_bytes,
                     " bytes have room for", plan.fixed64 ? "" : "; longer --key-bytes have more"));
  }
  return absl::OkStatus();
}

absl::Status SetBatch(const BenchOptions& options, BenchPlan& plan) {
  const bool scan = plan.name == "scan";
  if (plan.calls == BenchCalls::kSingle && !scan) {
    if (!options.batch) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("--batch is for batch-get, batch-write, session and scan: ", plan.name,
                     " has one operation a call"));
  }
  plan.batch = options.batch.value_or(std::min(kBatch, plan.keys));
  if (plan.calls != BenchCalls::kBatch || plan.batch <= plan.keys) return absl::OkStatus();
  return Wrong(
      "--batch", absl::StrCat(plan.batch),
      absl::StrCat("is more than --keys, ", plan.keys, ": a batch has each key at most once"));
}

absl::Status SetConcurrency(const BenchOptions& options, BenchPlan& plan) {
  plan.rate = options.rate.value_or(0);
  plan.in_flight = options.in_flight.value_or(plan.rate > 0 ? kInFlightAtRate : kInFlight);
  plan.connections = options.connections.value_or(std::min(kConnections, plan.in_flight));
  if (plan.connections > plan.in_flight) {
    return Wrong("--connections", absl::StrCat(plan.connections),
                 absl::StrCat("is more than --in-flight, ", plan.in_flight,
                              ": some would have nothing to do"));
  }
  if (plan.calls == BenchCalls::kSession) {
    plan.threads = plan.connections;
    if (!options.threads) return absl::OkStatus();
    return absl::InvalidArgumentError("--threads is not for session: each has a thread of its own");
  }
  const uint64_t usual = std::max(1U, std::thread::hardware_concurrency() / 4);
  plan.threads = options.threads.value_or(std::min(usual, plan.connections));
  if (plan.threads <= plan.connections) return absl::OkStatus();
  return Wrong("--threads", absl::StrCat(plan.threads),
               absl::StrCat("is more than --connections, ", plan.connections,
                            ": some would have nothing to do"));
}

}  // namespace

absl::StatusOr<BenchPlan> MakePlan(const BenchOptions& options) {
  BenchPlan plan;
  plan.seed = options.seed.value_or(1);
  plan.duration = options.duration.value_or(kDuration);
  plan.load = options.load;
  plan.clean = options.clean;
  absl::Status status =
      options.workload.empty() ? RefuseWithoutRun(options) : SetWorkload(options.workload, plan);
  for (const auto set : {SetRecords, SetBatch, SetConcurrency}) {
    if (status.ok()) status = set(options, plan);
    if (!plan.runs()) break;
  }
  if (status.ok()) status = SetDistribution(options.distribution, plan);
  if (!status.ok()) return status;
  return plan;
}

BenchShare ShareOf(const BenchPlan& plan, uint64_t thread) {
  const auto part = [&](uint64_t whole) {
    return whole / plan.threads + (thread < whole % plan.threads ? 1 : 0);
  };
  return {part(plan.connections), part(plan.in_flight), thread};
}

}  // namespace lodgekv::lodgectl
