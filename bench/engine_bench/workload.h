// The operations of a phase, and its distribution of keys. The names are those of --workload,
// --distribution and --key-shape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
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
  kReadChained,  // each key depends on the value read before: one read at a time
  kDelete,
  kScan,
  kMixed,    // insert, read, insert, read, ...
  kMixed12,  // insert, read, read, insert, ...
  kRecover,
  kWindow,  // keys ascend, the oldest are deleted
  kFull,    // until no more keys fit, and beyond
};

enum class Distribution : uint8_t {
  kUniform,
  kSkewed,      // 80 % of the operations in a fifth of the key space, one contiguous range
  kSequential,  // ascending
  kBurst,       // inserts into one small range for a while, then into another; otherwise uniform
};

// The form of the keys of a `bytes` pool.
enum class KeyShape : uint8_t {
  kRandom16,  // 16 random bytes
  kUser,      // user:%016d
  kUrl,       // some 70 characters, long shared prefixes
};

// How many operations one call of an engine has, and whether they take effect together.
struct Grouping {
  unsigned size = 1;
  bool atomic = false;

  bool operator==(const Grouping&) const = default;
};

struct Phase {
  Workload workload = Workload::kLoad;
  Distribution distribution = Distribution::kUniform;
};

inline constexpr uint64_t kScanItems = 100;

std::string_view WorkloadName(Workload workload);
std::string_view DistributionName(Distribution distribution);
std::string_view KeyShapeName(KeyShape shape);
std::string GroupingName(const Grouping& group);

// InvalidArgument names the word and lists the known ones.
absl::StatusOr<Workload> ParseWorkload(std::string_view name);
absl::StatusOr<Distribution> ParseDistribution(std::string_view name);
absl::StatusOr<KeyShape> ParseKeyShape(std::string_view name);
absl::StatusOr<KeyFormat> ParseKeyFormat(std::string_view name);

// "16", or "16a": atomic.
absl::StatusOr<Grouping> ParseGrouping(const std::string& text);

// "read" or "read:skewed".
absl::StatusOr<Phase> ParsePhase(std::string_view text, Distribution default_distribution);

// The first of every `period` operations of a mix is an insert; 0: not a mix.
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

// Whether the operations may be put together in groups so. The keys of an atomic group differ,
// which only new keys and those that go surely do.
constexpr bool CanGroup(Workload workload, const Grouping& group) {
  if (group.size == 1) return true;
  const bool differ = workload == Workload::kInsert || workload == Workload::kDelete;
  if (group.atomic) return differ;
  return differ || workload == Workload::kUpdate || workload == Workload::kRead ||
         workload == Workload::kReadAbsent;
}

constexpr bool ChangesKeys(Workload workload) {
  return AddsKey(workload, 0) || workload == Workload::kUpdate || workload == Workload::kDelete;
}

// Runs on its own pool, not the phases' common one.
constexpr bool RunsAlone(Workload workload) {
  return workload == Workload::kRecover || workload == Workload::kWindow ||
         workload == Workload::kFull;
}

// Whether the operations choose among existing keys.
constexpr bool PicksKeys(Workload workload) {
  return workload != Workload::kLoad && workload != Workload::kInsert &&
         workload != Workload::kReadAbsent && !RunsAlone(workload);
}

}  // namespace lodgekv::bench
