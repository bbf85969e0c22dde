#include "client/lodgectl/bench/report.h"

#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/version.h"

namespace lodgekv::lodgectl {
namespace {

using nlohmann::ordered_json;
using workload::Histogram;
using workload::YcsbOperation;

struct Percentile {
  absl::string_view name;
  double fraction;
};
constexpr std::array<Percentile, 5> kPercentiles{
    {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}, {"max", 1}}};

double Microseconds(const Histogram& histogram, double fraction) {
  return histogram.Percentile(fraction) / 1'000;
}

// Three digits and a unit.
std::string Duration(double microseconds) {
  if (microseconds < 1'000) return absl::StrFormat("%.0f us", microseconds);
  if (microseconds < 10'000) return absl::StrFormat("%.2f ms", microseconds / 1'000);
  if (microseconds < 1'000'000) return absl::StrFormat("%.1f ms", microseconds / 1'000);
  return absl::StrFormat("%.2f s", microseconds / 1'000'000);
}

std::string Line(absl::string_view name, uint64_t calls, const Histogram& latencies) {
  std::string line = absl::StrFormat("%-18s %12d", name, calls);
  for (const Percentile& percentile : kPercentiles) {
    absl::StrAppendFormat(
        &line, " %10s",
        latencies.total() == 0 ? "-" : Duration(Microseconds(latencies, percentile.fraction)));
  }
  return line + "\n";
}

std::string Head(const BenchPlan& plan, const BenchResult& result) {
  std::string head = absl::StrFormat("%s: %d keys of %d bytes, values of %d, %s; %d connections, ",
                                     plan.name, plan.keys, plan.key_bytes, plan.value_bytes,
                                     std::string(NameOf(plan.mix.distribution)), plan.connections);
  if (plan.rate > 0) {
    absl::StrAppendFormat(&head, "%d calls a second, at most %d in flight", plan.rate,
                          plan.in_flight);
  } else {
    absl::StrAppendFormat(&head, "%d in flight", plan.in_flight);
  }
  if (plan.batch > 0) {
    absl::StrAppendFormat(&head, ", %d %s a call", plan.batch,
                          plan.name == "scan" ? "items" : "operations");
  }
  absl::StrAppendFormat(&head, "; %.1f s%s\n", result.seconds,
                        result.was_cut ? ", interrupted" : "");
  return head;
}

void AppendCounts(absl::string_view what, const std::map<std::string, uint64_t>& counts,
                  std::string& text) {
  for (const auto& [name, count] : counts)
    absl::StrAppendFormat(&text, "%s %d %s\n", what, count, name);
}

void AppendCount(absl::string_view what, uint64_t count, std::string& text) {
  if (count > 0) absl::StrAppendFormat(&text, "%-18s %12d\n", what, count);
}

ordered_json LatenciesOf(const Histogram& histogram) {
  ordered_json latencies;
  for (const Percentile& percentile : kPercentiles) {
    latencies[std::string(percentile.name)] =
        histogram.total() == 0 ? ordered_json()
                               : ordered_json(Microseconds(histogram, percentile.fraction));
  }
  return latencies;
}

ordered_json OperationsOf(const BenchPlan& plan, const BenchTally& tally) {
  ordered_json each = ordered_json::object();
  for (size_t i = 0; i < workload::kYcsbOperations; ++i) {
    const auto operation = static_cast<YcsbOperation>(i);
    if (!plan.has(operation)) continue;
    each[std::string(NameOf(operation))] = {
        {"calls", tally.calls(operation)}, {"latency_us", LatenciesOf(tally.latencies(operation))}};
  }
  return each;
}

// 0 is none.
ordered_json OrNull(uint64_t number) { return number == 0 ? ordered_json() : ordered_json(number); }

}  // namespace

std::string FormatBenchTable(const BenchPlan& plan, const BenchResult& result) {
  const BenchTally& tally = result.tally;
  std::string text = Head(plan, result);
  absl::StrAppendFormat(&text, "\n%.0f operations/s, %.0f calls/s\n\n",
                        static_cast<double>(tally.operations()) / result.seconds,
                        static_cast<double>(tally.AllCalls()) / result.seconds);
  absl::StrAppendFormat(&text, "%-18s %12s", "", "calls");
  for (const Percentile& percentile : kPercentiles) {
    absl::StrAppendFormat(&text, " %10s", std::string(percentile.name));
  }
  absl::StrAppend(&text, "\n", Line("all", tally.AllCalls(), tally.AllLatencies()));
  for (size_t i = 0; i < workload::kYcsbOperations; ++i) {
    const auto operation = static_cast<YcsbOperation>(i);
    if (!plan.has(operation) || plan.mix.percent[i] == 100) continue;
    text +=
        Line(std::string(NameOf(operation)), tally.calls(operation), tally.latencies(operation));
  }
  text += "\n";
  AppendCount("not found", tally.not_found(), text);
  AppendCount("due, not sent", tally.not_sent(), text);
  AppendCount("not answered", tally.unanswered(), text);
  if (tally.errors().empty() && tally.operation_errors().empty()) return text + "no errors\n";
  AppendCounts("errors of calls:", tally.errors(), text);
  AppendCounts("errors of operations:", tally.operation_errors(), text);
  return text;
}

std::string FormatBenchJson(const BenchPlan& plan, const std::string& server,
                            const BenchResult& result) {
  const BenchTally& tally = result.tally;
  const ordered_json json{
      {"version", DescribeBuild()},
      {"server", server},
      {"workload", plan.name},
      {"distribution", NameOf(plan.mix.distribution)},
      {"keys", plan.keys},
      {"key_bytes", plan.key_bytes},
      {"value_bytes", plan.value_bytes},
      {"connections", plan.connections},
      {"threads", plan.threads},
      {"in_flight", plan.in_flight},
      {"rate", OrNull(plan.rate)},
      {"batch", OrNull(plan.batch)},
      {"seed", plan.seed},
      {"duration_seconds", absl::ToDoubleSeconds(plan.duration)},
      {"seconds", result.seconds},
      {"interrupted", result.was_cut},
      {"calls", tally.AllCalls()},
      {"operations", tally.operations()},
      {"calls_per_second", static_cast<double>(tally.AllCalls()) / result.seconds},
      {"operations_per_second", static_cast<double>(tally.operations()) / result.seconds},
      {"not_found", tally.not_found()},
      {"not_sent", tally.not_sent()},
      {"not_answered", tally.unanswered()},
      {"error_count", Sum(tally.errors())},
      {"errors", tally.errors()},
      {"operation_error_count", Sum(tally.operation_errors())},
      {"operation_errors", tally.operation_errors()},
      {"latency_us", LatenciesOf(tally.AllLatencies())},
      {"each", OperationsOf(plan, tally)}};
  return json.dump() + "\n";
}

}  // namespace lodgekv::lodgectl
