#include "bench/engine_bench/report.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/engine_bench/statistics.h"

namespace lodgekv::bench {
namespace {

std::string Ratio(const std::vector<double>& values) {
  if (values.empty()) return "";
  const Spread spread = SpreadOf(values);
  return absl::StrFormat("%.2f [%.2f-%.2f]", spread.median, spread.low, spread.high);
}

// To the baseline of that place.
std::string RatioTo(const PhaseResult& r, size_t place, std::vector<double> BaselineRatios::*kind) {
  if (place >= r.ratios_to_btrees.size()) return "";
  return Ratio(r.ratios_to_btrees[place].*kind);
}

std::string Number(double value, int decimals) {
  return value == 0 ? "0" : absl::StrFormat("%.*f", decimals, value);
}

// The target, its options and the shape of its keys.
std::string TargetText(const TargetId& id) {
  std::string text = id.engine;
  if (!id.engine_options.empty()) absl::StrAppend(&text, ":", id.engine_options);
  return text;
}

std::string KeysText(const TargetId& id) {
  return id.key_shape == "integer" ? id.key_format : absl::StrCat(id.key_format, "/", id.key_shape);
}

struct Column {
  const char* title;
  std::string (*cell)(const PhaseResult&);
};

constexpr size_t kLeftColumns = 4;
constexpr double kUndisturbed = 0.97;
const Column kColumns[] = {
    {"workload", [](const PhaseResult& r) { return r.workload; }},
    {"distribution", [](const PhaseResult& r) { return r.distribution; }},
    {"engine", [](const PhaseResult& r) { return TargetText(r.id); }},
    {"keys", [](const PhaseResult& r) { return KeysText(r.id); }},
    {"threads", [](const PhaseResult& r) { return absl::StrCat(r.threads); }},
    {"group",
     [](const PhaseResult& r) { return r.group.size > 1 ? GroupingName(r.group) : std::string(); }},
    {"Mops/s", [](const PhaseResult& r) { return Number(r.OpsPerSecond() / 1e6, 3); }},
    {"ns/op",
     [](const PhaseResult& r) { return Number(r.PerOp(1) * r.seconds * r.threads * 1e9, 1); }},
    {"of btree_map", [](const PhaseResult& r) { return RatioTo(r, 0, &BaselineRatios::times); }},
    {"with huge pages", [](const PhaseResult& r) { return RatioTo(r, 1, &BaselineRatios::times); }},
    {"cpu of btree_map",
     [](const PhaseResult& r) {
       return r.CpuShare() < kUndisturbed ? RatioTo(r, 0, &BaselineRatios::cpu_times)
                                          : std::string();
     }},
    {"of lone", [](const PhaseResult& r) { return Ratio(r.ratios_to_lone); }},
    {"of first engine", [](const PhaseResult& r) { return Ratio(r.ratios_to_first); }},
    {"speedup", [](const PhaseResult& r) { return Ratio(r.speedups); }},
    {"cpu %", [](const PhaseResult& r) { return Number(r.CpuShare() * 100, 0); }},
    {"lines", [](const PhaseResult& r) { return Number(r.PerOp(r.cost.lines_flushed), 3); }},
    {"fences", [](const PhaseResult& r) { return Number(r.PerOp(r.cost.fences), 3); }},
    {"256B", [](const PhaseResult& r) { return Number(r.PerOp(r.cost.media_writes_256b), 3); }},
    {"max lines", [](const PhaseResult& r) { return absl::StrCat(r.latency.max_lines()); }},
    {"p50 ns", [](const PhaseResult& r) { return Number(r.LatencyNs(0.5), 0); }},
    {"p99 ns", [](const PhaseResult& r) { return Number(r.LatencyNs(0.99), 0); }},
    {"p99.9 ns", [](const PhaseResult& r) { return Number(r.LatencyNs(0.999), 0); }},
    {"p99.99 ns", [](const PhaseResult& r) { return Number(r.LatencyNs(0.9999), 0); }},
    {"medium B/key",
     [](const PhaseResult& r) { return Number(r.PerKey(r.memory.medium_bytes), 1); }},
    {"DRAM B/key", [](const PhaseResult& r) { return Number(r.PerKey(r.memory.dram_bytes), 2); }},
};

constexpr char kLegend[] =
    "of btree_map, with huge pages (its nodes), of first engine: time as a share of the other's "
    "in\n"
    "the same chunks, the same operations; of lone: an operation's time in a group as a share of\n"
    "one's alone, same chunks; speedup: operations per second over those of one thread. Each is\n"
    "the median of the chunks, with quartiles. Of groups latencies and most lines are a call's. "
    "ns/op is of one thread. cpu %: of its time that a thread ran;\n"
    "well below 100 other processes or the medium were in the way, and times say little; cpu of\n"
    "btree_map is then the ratio of times on a processor. lines, fences, 256B: flushed 64-byte\n"
    "lines, fences and distinct 256-byte blocks per operation; max lines: of any single one.\n";

}  // namespace

std::string FormatRows(const std::string& title, const Rows& rows) {
  size_t width = 0;
  for (const auto& [name, value] : rows) width = std::max(width, name.size());
  std::string text = title + ":\n";
  for (const auto& [name, value] : rows) {
    absl::StrAppendFormat(&text, "  %-*s  %s\n", static_cast<int>(width), name,
                          value.empty() ? "-" : value);
  }
  return text;
}

TextTable::TextTable(std::vector<std::string> header, size_t left) : left_(left) {
  rows_.push_back(std::move(header));
}

std::string TextTable::Format() const {
  std::vector<size_t> widths(rows_.front().size());
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - row[i].size(), ' ');
      absl::StrAppend(&line, i == 0 ? "" : "  ", i < left_ ? row[i] + space : space + row[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

std::string FormatResults(const std::vector<PhaseResult>& results) {
  std::vector<const Column*> columns;
  for (const Column& column : kColumns) {
    const bool said = std::any_of(results.begin(), results.end(),
                                  [&](const PhaseResult& r) { return !column.cell(r).empty(); });
    if (said) columns.push_back(&column);
  }
  std::vector<std::string> header;
  header.reserve(columns.size());
  for (const Column* column : columns) header.emplace_back(column->title);
  TextTable table(std::move(header), kLeftColumns);
  for (const PhaseResult& result : results) {
    std::vector<std::string> row;
    row.reserve(columns.size());
    for (const Column* column : columns) row.push_back(column->cell(result));
    table.Add(std::move(row));
  }
  return table.Format() + kLegend;
}

std::string FormatWindows(const std::vector<WindowResult>& results) {
  TextTable table({"window of", "keys in", "alive", "passed", "Mops/s", "DRAM MB", "medium MB",
                   "leaves", "leaves to first key", "ns to first key"},
                  2);
  for (const WindowResult& r : results) {
    table.Add({TargetText(r.id), KeysText(r.id), absl::StrCat(r.keys), absl::StrCat(r.passed),
               Number(r.OpsPerSecond() / 1e6, 3), Number(r.memory.dram_bytes / 1e6, 2),
               Number(r.memory.medium_bytes / 1e6, 2), absl::StrCat(r.leaves),
               absl::StrCat(r.first_key_leaves), Number(r.first_key_ns, 0)});
  }
  return table.Format();
}

std::string FormatFullStages(const std::vector<FullStageResult>& results) {
  TextTable table({"full pool of", "keys in", "stage", "ops", "refused", "p50 ns", "p99 ns",
                   "p99.9 ns", "max us", "reader p99.9 ns", "reader max us", "keys", "DRAM MB"},
                  3);
  for (const FullStageResult& r : results) {
    const auto& reads = r.reader_ticks;
    table.Add({TargetText(r.id), KeysText(r.id), r.stage, absl::StrCat(r.ticks.total()),
               absl::StrCat(r.refused), Number(r.Ns(r.ticks, 0.5), 0),
               Number(r.Ns(r.ticks, 0.99), 0), Number(r.Ns(r.ticks, 0.999), 0),
               Number(r.Ns(r.ticks, 1) / 1e3, 0), Number(r.Ns(reads, 0.999), 0),
               Number(r.Ns(reads, 1) / 1e3, 0), absl::StrCat(r.live_keys),
               Number(r.memory.dram_bytes / 1e6, 2)});
  }
  return table.Format();
}

std::string FormatRecoveries(const std::vector<RecoveryResult>& results) {
  TextTable table({"recovery of", "keys in", "threads", "keys", "ms", "Mkeys/s", "Mkeys/s/thread",
                   "open ms", "leaves", "log replayed", "log dropped", "repairs"},
                  2);
  for (const RecoveryResult& r : results) {
    const double rate = r.KeysPerSecond() / 1e6;
    table.Add({TargetText(r.id), KeysText(r.id), absl::StrCat(r.threads),
               absl::StrCat(r.keys), Number(r.report.milliseconds, 1), Number(rate, 2),
               Number(rate / r.report.threads, 2), Number(r.open_milliseconds, 1),
               absl::StrCat(r.report.leaves_scanned), absl::StrCat(r.report.log_entries_replayed),
               absl::StrCat(r.report.log_entries_dropped), absl::StrCat(r.report.repairs)});
  }
  return table.Format();
}

}  // namespace lodgekv::bench
