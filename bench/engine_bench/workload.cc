#include "bench/engine_bench/workload.h"

#include <iterator>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "index/key_format_name.h"

namespace lodgekv::bench {
namespace {

template <class T>
struct Named {
  T value;
  std::string_view name;
};

constexpr Named<Workload> kWorkloads[] = {
    {Workload::kLoad, "load"},
    {Workload::kInsert, "insert"},
    {Workload::kUpdate, "update"},
    {Workload::kRead, "read"},
    {Workload::kReadAbsent, "read_absent"},
    {Workload::kReadChained, "read_chained"},
    {Workload::kDelete, "delete"},
    {Workload::kScan, "scan"},
    {Workload::kMixed, "mixed"},
    {Workload::kMixed12, "mixed_1_2"},
    {Workload::kRecover, "recover"},
    {Workload::kWindow, "window"},
    {Workload::kFull, "full"},
};
constexpr Named<Distribution> kDistributions[] = {
    {Distribution::kUniform, "uniform"},
    {Distribution::kSkewed, "skewed"},
    {Distribution::kSequential, "sequential"},
    {Distribution::kBurst, "burst"},
};
constexpr Named<KeyShape> kKeyShapes[] = {
    {KeyShape::kRandom16, "random16"},
    {KeyShape::kUser, "user"},
    {KeyShape::kUrl, "url"},
};
constexpr Named<KeyFormat> kKeyFormats[] = {
    {KeyFormat::kFixed64, KeyFormatName(KeyFormat::kFixed64)},
    {KeyFormat::kBytes, KeyFormatName(KeyFormat::kBytes)},
};

template <class T, size_t n>
std::string_view NameOf(const Named<T> (&table)[n], T value) {
  for (const Named<T>& row : table) {
    if (row.value == value) return row.name;
  }
  return "unknown";
}

template <class T, size_t n>
absl::StatusOr<T> ValueOf(const Named<T> (&table)[n], std::string_view what,
                          std::string_view name) {
  std::string known;
  for (const Named<T>& row : table) {
    if (row.name == name) return row.value;
    known.append(known.empty() ? "" : ", ").append(row.name);
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown ", std::string(what), " '",
                                                 std::string(name), "'; the known ones: ", known));
}

}  // namespace

std::string_view WorkloadName(Workload workload) { return NameOf(kWorkloads, workload); }
std::string_view DistributionName(Distribution distribution) {
  return NameOf(kDistributions, distribution);
}
std::string_view KeyShapeName(KeyShape shape) { return NameOf(kKeyShapes, shape); }

std::string GroupingName(const Grouping& group) {
  return absl::StrCat(group.size, group.atomic ? "a" : "");
}

absl::StatusOr<Grouping> ParseGrouping(const std::string& text) {
  constexpr unsigned kMaxGroup = 1000;
  Grouping group;
  group.atomic = text.ends_with('a');
  const std::string digits = text.substr(0, text.size() - (group.atomic ? 1 : 0));
  if (absl::SimpleAtoi(digits, &group.size) && group.size >= 1 && group.size <= kMaxGroup &&
      !(group.atomic && group.size == 1)) {
    return group;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--group: '", text, "' is neither a number of operations from 1 to ", kMaxGroup,
                   " nor one from 2 on with an a for atomic, such as 16 or 16a"));
}

absl::StatusOr<Workload> ParseWorkload(std::string_view name) {
  return ValueOf(kWorkloads, "workload", name);
}
absl::StatusOr<Distribution> ParseDistribution(std::string_view name) {
  return ValueOf(kDistributions, "distribution", name);
}
absl::StatusOr<KeyShape> ParseKeyShape(std::string_view name) {
  return ValueOf(kKeyShapes, "key shape", name);
}
absl::StatusOr<KeyFormat> ParseKeyFormat(std::string_view name) {
  return ValueOf(kKeyFormats, "key format", name);
}

absl::StatusOr<Phase> ParsePhase(std::string_view text, Distribution default_distribution) {
  const size_t colon = text.find(':');
  Phase phase;
  phase.distribution = default_distribution;
  const auto workload = ParseWorkload(text.substr(0, colon));
  if (!workload.ok()) return workload.status();
  phase.workload = *workload;
  if (colon == std::string_view::npos) return phase;
  const auto distribution = ParseDistribution(text.substr(colon + 1));
  if (!distribution.ok()) return distribution.status();
  phase.distribution = *distribution;
  return phase;
}

}  // namespace lodgekv::bench
