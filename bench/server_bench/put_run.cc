#include "bench/server_bench/put_run.h"

#include <algorithm>
#include <memory>
#include <thread>

#include "bench/server_bench/put_driver.h"

namespace lodgekv::server_bench {
namespace {

// A thread's puts.
struct Lane {
  std::unique_ptr<PutDriver> driver;
  PutSource source;
  PutRecorder recorder;
  absl::Status status;
};

std::unique_ptr<PutDriver> MakeDriver(const PutPlan& plan, const PutShare& share) {
  switch (plan.protocol) {
    case Protocol::kEtcd: return MakeEtcdDriver(plan, share);
    case Protocol::kRedis: return MakeRedisDriver(plan, share);
    case Protocol::kLodgekv: break;
  }
  return MakeLodgekvDriver(plan, share);
}

uint64_t ToNs(std::chrono::nanoseconds time) { return static_cast<uint64_t>(time.count()); }

// The drivers are connected before the clock starts.
absl::StatusOr<std::vector<std::unique_ptr<Lane>>> Prepare(const PutPlan& plan) {
  std::vector<std::unique_ptr<PutDriver>> drivers;
  const std::vector<PutShare> shares = SharesOf(plan);
  for (const PutShare& share : shares) {
    drivers.push_back(MakeDriver(plan, share));
    if (absl::Status status = drivers.back()->Connect(); !status.ok()) return status;
  }
  PutRecorder::Limits limits = LimitsFromNow(plan, shares.size());
  std::vector<std::unique_ptr<Lane>> lanes;
  for (size_t i = 0; i < shares.size(); ++i) {
    limits.least_puts = shares[i].in_flight;
    lanes.push_back(std::make_unique<Lane>(Lane{std::move(drivers[i]),
                                                PutSource(shares[i].seed, plan.key_space),
                                                PutRecorder(limits), absl::OkStatus()}));
  }
  return lanes;
}

void RunAll(std::vector<std::unique_ptr<Lane>>& lanes) {
  std::vector<std::jthread> threads;
  threads.reserve(lanes.size());
  for (const auto& lane : lanes) {
    threads.emplace_back(
        [&lane] { lane->status = lane->driver->Run(lane->source, lane->recorder); });
  }
}

}  // namespace

PutRecorder::Limits LimitsFromNow(const PutPlan& plan, size_t threads) {
  PutRecorder::Limits limits;
  limits.count_from_ns = NowNs() + ToNs(plan.warm_up);
  limits.end_ns = limits.count_from_ns + ToNs(plan.time);
  limits.keep_samples = plan.keep_samples;
  if (plan.most_puts > 0) limits.most_puts = (plan.most_puts + threads - 1) / threads;
  return limits;
}

double SecondsOf(const PutPlan& plan, const PutRecorder::Limits& limits, uint64_t last_ns) {
  const uint64_t end = plan.most_puts > 0 ? last_ns : std::max(last_ns, limits.end_ns);
  if (end <= limits.count_from_ns) return 0;
  return static_cast<double>(end - limits.count_from_ns) / 1e9;
}

absl::StatusOr<PutResult> RunPuts(const PutPlan& plan) {
  auto lanes = Prepare(plan);
  if (!lanes.ok()) return lanes.status();
  RunAll(*lanes);
  const PutRecorder::Limits& limits = lanes->front()->recorder.limits();
  PutResult result;
  uint64_t last = 0;
  for (const auto& lane : *lanes) {
    if (!lane->status.ok()) return lane->status;
    result.latencies.Merge(lane->recorder.latencies());
    last = std::max(last, lane->recorder.last_ns());
    const auto& samples = lane->recorder.samples();
    result.samples.insert(result.samples.end(), samples.begin(), samples.end());
  }
  result.seconds = SecondsOf(plan, limits, last);
  return result;
}

}  // namespace lodgekv::server_bench
