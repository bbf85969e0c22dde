// What a run of `lodgectl bench` does, made of its options and checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/workload/ycsb_workload.h"

namespace lodgekv::lodgectl {

// How operations are sent: each in a call of its own, many in a call, or in messages of a session.
enum class BenchCalls : uint8_t { kSingle, kBatch, kSession };

// As given; absent: the plan chooses.
struct BenchOptions {
  std::string workload;  // empty: none is run
  std::string distribution;
  std::optional<uint64_t> keys;
  std::optional<uint64_t> key_bytes;
  std::optional<uint64_t> value_bytes;
  std::optional<uint64_t> connections;
  std::optional<uint64_t> in_flight;
  std::optional<uint64_t> threads;
  std::optional<uint64_t> rate;
  std::optional<uint64_t> batch;
  std::optional<uint64_t> seed;
  std::optional<absl::Duration> duration;
  bool load = false;
  bool clean = false;
  bool fixed64 = false;
};

struct BenchPlan {
  std::string name;  // of the workload; empty: none is run
  workload::YcsbWorkload mix = {};
  BenchCalls calls = BenchCalls::kSingle;
  uint64_t keys = 0;  // that are loaded
  size_t key_bytes = 0;
  size_t value_bytes = 0;
  uint64_t connections = 0;
  uint64_t in_flight = 0;  // calls, or messages of sessions, of all connections
  uint64_t threads = 0;    // that share the connections
  uint64_t rate = 0;       // calls a second; 0: closed loop
  uint64_t batch = 0;      // operations of a call, items of a scan; 0: as YCSB draws them
  uint64_t seed = 0;
  absl::Duration duration;
  bool load = false;
  bool clean = false;
  bool fixed64 = false;

  bool runs() const { return !name.empty(); }
  bool has(workload::YcsbOperation operation) const {
    return mix.percent[static_cast<size_t>(operation)] > 0;
  }
  // It expects records that are there.
  bool reads() const {
    return has(workload::YcsbOperation::kRead) || has(workload::YcsbOperation::kScan) ||
           has(workload::YcsbOperation::kReadModifyWrite);
  }
};

// INVALID_ARGUMENT: what is wrong, which value, and what would be right.
absl::StatusOr<BenchPlan> MakePlan(const BenchOptions& options);

// What one thread does of it: connections, calls in flight and calls a second.
struct BenchShare {
  uint64_t connections = 0;
  uint64_t in_flight = 0;
  uint64_t first_call = 0;  // of an open loop: it sends every threads-th call, from this one on
};
BenchShare ShareOf(const BenchPlan& plan, uint64_t thread);

}  // namespace lodgekv::lodgectl
