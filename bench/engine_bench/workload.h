// What the benchmark does in a phase, and how it chooses keys. The names are those of --workload,
// --distribution and --key-shape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "index/engine.h"

namespace lodgekv::bench {

enum class Workload : uint8_t {
  kLoad,
  kInsert,
  kUpdate,
  kRead,
  kReadAbsent,
  kDelete,
  kScan,
  kMixed,    // insert, read, insert, read, ...
  kMixed12,  // insert, read, read, insert, ...
  kRecover,
  kWindow,  // keys ascend, the oldest go
  kFull,    // until no key fits any more, and on
};

enum class Distribution : uint8_t {
  kUniform,
  kSkewed,      // 80 % of the operations in a fifth of the key space, one contiguous range
  kSequential,  // ascending
  kBurst,       // inserts that come to one small range for a while, then to another; else uniform
};

// How the keys of a `bytes` pool look.
enum class KeyShape : uint8_t {
  kRandom16,  // 16 random bytes
  kUser,      // user:%016d
  kUrl,       // some 70 characters, long shared prefixes
};

struct Phase {
  Workload workload = Workload::kLoad;
  Distribution distribution = Distribution::kUniform;
};

inline constexpr uint64_t kScanItems = 100;

std::string_view WorkloadName(Workload workload);
std::string_view DistributionName(Distribution distribution);
std::string_view KeyShapeName(KeyShape shape);

// InvalidArgument names the word and lists the known ones.
absl::StatusOr<Workload> ParseWorkload(std::string_view name);
absl::StatusOr<Distribution> ParseDistribution(std::string_view name);
absl::StatusOr<KeyShape> ParseKeyShape(std::string_view name);
absl::StatusOr<KeyFormat> ParseKeyFormat(std::string_view name);

// "read" or "read:skewed".
absl::StatusOr<Phase> ParsePhase(std::string_view text, Distribution default_distribution);

// Of every `period` operations of a mix the first is an insert; 0: no mix.
constexpr size_t MixPeriod(Workload workload) {
  if (workload == Workload::kMixed) return 2;
  if (workload == Workload::kMixed12) return 3;
  return 0;
}

// Whether operation i of a thread's share adds a key.
constexpr bool AddsKey(Workload workload, size_t i) {
  if (workload == Workload::kLoad || workload == Workload::kInsert) return true;
  const size_t period = MixPeriod(workload);
  return period != 0 && i % period == 0;
}

constexpr bool ChangesKeys(Workload workload) {
  return AddsKey(workload, 0) || workload == Workload::kUpdate || workload == Workload::kDelete;
}

// On a pool of its own, beside the phases that share one.
constexpr bool RunsAlone(Workload workload) {
  return workload == Workload::kRecover || workload == Workload::kWindow ||
         workload == Workload::kFull;
}

// Whether the operations choose among the keys that are there.
constexpr bool PicksKeys(Workload workload) {
  return workload != Workload::kLoad && workload != Workload::kInsert &&
         workload != Workload::kReadAbsent && !RunsAlone(workload);
}

}  // namespace lodgekv::bench
