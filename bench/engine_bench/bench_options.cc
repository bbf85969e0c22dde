#include "bench/engine_bench/bench_options.h"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <thread>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "index/registry.h"

namespace lodgekv::bench {
namespace {

constexpr uint64_t kDefaultOps = 2'000'000;
constexpr uint64_t kDefaultLatencyOps = 1'000'000;
constexpr unsigned kMinChunks = 10;
constexpr unsigned kMaxChunks = 100'000;
constexpr unsigned kMaxThreads = 256;
constexpr uint64_t kMaxKeys = uint64_t{1} << 36;
constexpr uint64_t kMaxValueBytes = uint64_t{16} << 20;

// The command line as typed.
struct Given {
  std::vector<std::string> engines = {"lodgetree"};
  std::vector<std::string> key_formats = {"fixed64"};
  std::vector<std::string> key_shapes = {"random16"};
  std::vector<std::string> engine_options;
  std::vector<std::string> workloads = {"load",        "insert", "update", "read",
                                        "read_absent", "scan",   "mixed",  "delete"};
  std::string distribution = "uniform";
  uint64_t keys = 10'000'000;
  unsigned bulk_load_fill = 0;
  std::optional<uint64_t> ops;
  std::optional<uint64_t> latency_ops;
  std::string latency_end = "drained";
  unsigned chunks = kMinChunks;
  std::vector<unsigned> threads = {1};
  std::vector<std::string> groups = {"1"};
  std::vector<unsigned> recovery_threads;
  unsigned repeat = 1;
  uint64_t seed = 1;
  uint32_t value_bytes = 8;
  bool inline_pairs = false;
  std::string pool_path;
  uint64_t pool_size_bytes = 0;
  std::string durability = "medium";
  bool allow_volatile_medium = false;
  std::string json_path;
  bool no_baselines = false;
  bool no_pin = false;
  bool keep_pool = false;
  bool kill_after_load = false;
};

// 10000000, 10000k or 10m.
CLI::Validator Count() {
  const std::map<std::string, uint64_t> units = {{"k", 1'000}, {"m", 1'000'000}};
  return CLI::AsNumberWithUnit(units, CLI::AsNumberWithUnit::CASE_INSENSITIVE, "COUNT[k|m]");
}

void AddSubjectOptions(CLI::App& app, Given& g) {
  app.add_option("--engine", g.engines,
                 "engines side by side; each may carry options: NAME:K=V:K=V")
      ->delimiter(',');
  app.add_option("--engine-option", g.engine_options,
                 "K=V for every engine that knows K; may be repeated");
  app.add_option("--key-format", g.key_formats, "fixed64, bytes or both")->delimiter(',');
  app.add_option("--key-shape", g.key_shapes, "of bytes keys: random16, user, url")->delimiter(',');
  app.add_option("--value-size", g.value_bytes, "bytes of a value, key format bytes")
      ->check(CLI::Range(uint64_t{0}, kMaxValueBytes));
  app.add_flag("--inline-pairs", g.inline_pairs, "short pairs in the slot, key format bytes");
}

void AddWorkOptions(CLI::App& app, Given& g) {
  app.add_option("--workload", g.workloads,
                 "phases in this order, each W or W:DISTRIBUTION. load, insert, update, read, "
                 "read_absent, read_chained (each key depends on the value read before), delete, "
                 "scan (of 100), mixed (insert and read, 1:1), mixed_1_2, "
                 "recover (after SIGKILL), window (--keys alive, --ops pass), full (--keys with "
                 "room, then until no more fit). Keys are always loaded; load here has it "
                 "measured")
      ->delimiter(',');
  app.add_option("--distribution", g.distribution,
                 "of the phases that name none: uniform, skewed (80 % in one fifth of the key "
                 "space), sequential, burst (65,536 inserts in a row into one of 256 ranges, then "
                 "into another; all else as uniform)");
  app.add_option("--keys", g.keys, "keys loaded")->transform(Count());
  app.add_option("--bulk-load-fill", g.bulk_load_fill,
                 "percent: keys are loaded in bulk, in order, into leaves that are so full; for "
                 "engines with a bulk load")
      ->check(CLI::Range(kLeastFillPercent, 100U));
  app.add_option("--ops", g.ops, "operations of a phase [the keys, at most 2m]")
      ->transform(Count());
  app.add_option("--latency-ops", g.latency_ops,
                 "operations timed one by one, in a pass of their own [the ops, at most 1m]")
      ->transform(Count());
  app.add_option("--latency-end", g.latency_end,
                 "an operation is over when its stores and flushes are done (drained), or when its "
                 "last instruction is (retired), which can be before a fence is")
      ->check(CLI::IsMember({"drained", "retired"}));
  app.add_option("--chunks", g.chunks, "at least so many turns of the engines and the baseline")
      ->check(CLI::Range(kMinChunks, kMaxChunks));
  app.add_option("--threads", g.threads, "thread counts, each measured in turn")
      ->delimiter(',')
      ->check(CLI::Range(1U, kMaxThreads));
  app.add_option(
         "--group", g.groups,
         "operations of one call, each measured in turn: 1, 16, or 16a, which is atomic. For "
         "insert, delete, update, read and read_absent; atomic for the first two")
      ->delimiter(',');
  app.add_option("--recovery-threads", g.recovery_threads,
                 "of recover; several are measured in turn [one per core]")
      ->delimiter(',')
      ->check(CLI::Range(1U, kMaxThreads));
  app.add_option("--repeat", g.repeat, "whole runs, from an empty pool, that are put together")
      ->check(CLI::Range(1U, 1000U));
  app.add_option("--seed", g.seed, "of all keys and choices");
}

void AddRunOptions(CLI::App& app, Given& g) {
  app.add_option("--pool", g.pool_path,
                 "file to create, or an empty device, for persistent engines; further engines get "
                 "FILE.1, FILE.2; removed at the end");
  app.add_option("--pool-size", g.pool_size_bytes, "such as 4GiB [by keys and sizes]")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--durability", g.durability, "medium, or process (no flush, no sync)")
      ->check(CLI::IsMember({"medium", "process"}));
  app.add_flag("--allow-volatile-medium", g.allow_volatile_medium,
               "measure on a volatile medium, such as a memory file system");
  app.add_option("--json", g.json_path, "write one JSON object per phase and line; - for stdout");
  app.add_flag("--no-baselines", g.no_baselines,
               "leave out btree_map, on small pages and huge, and persist");
  app.add_flag("--no-pin", g.no_pin, "leave threads to the scheduler");
  app.add_flag("--keep-pool", g.keep_pool, "leave the pool file where it is");
  app.add_flag("--kill-after-load", g.kill_after_load,
               "end this process by SIGKILL after the load, the pool left as a crash leaves it");
}

std::string EngineHelp() {
  std::string text = "Engines and their options:\n";
  for (const EngineInfo* engine : AllEngines()) {
    absl::StrAppend(&text, "  ", std::string(engine->name), ": ", std::string(engine->summary),
                    "\n");
    for (const EngineOption& option : engine->options) {
      absl::StrAppend(&text, "    ", std::string(option.name), " = ", option.default_value, " (",
                      option.min_value, "..", option.max_value, "): ", std::string(option.doc),
                      "\n");
    }
  }
  return text;
}

using OptionMap = std::map<std::string, std::string>;

absl::Status AddOption(std::string_view text, OptionMap* options) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("engine option '", std::string(text), "' is not of the form K=V"));
  }
  (*options)[std::string(text.substr(0, equals))] = std::string(text.substr(equals + 1));
  return absl::OkStatus();
}

// NAME:K=V:K=V
absl::StatusOr<Subject> ParseEngine(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  const auto info = FindEngine(parts[0]);
  if (!info.ok()) return info.status();
  Subject subject;
  subject.engine = parts[0];
  subject.persistent = (*info)->persistent;
  subject.discards = (*info)->discards;
  for (size_t i = 1; i < parts.size(); ++i) {
    if (auto status = AddOption(parts[i], &subject.engine_options); !status.ok()) return status;
  }
  return subject;
}

bool Knows(const EngineInfo& info, std::string_view option) {
  return std::any_of(info.options.begin(), info.options.end(),
                     [&](const EngineOption& o) { return o.name == option; });
}

// Gives each engine those of the common options that it knows; an option that no engine knows goes
// to the first, whose error lists the known ones.
absl::Status AddCommonOptions(const OptionMap& common, std::vector<Subject>* engines) {
  for (const auto& [name, value] : common) {
    bool known = false;
    for (Subject& engine : *engines) {
      const EngineInfo& info = **FindEngine(engine.engine);
      if (!Knows(info, name)) continue;
      known = true;
      engine.engine_options.emplace(name, value);
    }
    if (!known) engines->front().engine_options.emplace(name, value);
  }
  for (const Subject& engine : *engines) {
    const auto values =
        OptionValues::Parse((*FindEngine(engine.engine))->options, engine.engine_options);
    if (!values.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("engine ", engine.engine, ": ", std::string(values.status().message())));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Subject>> ParseEngines(const Given& g) {
  std::vector<Subject> engines;
  for (const std::string& text : g.engines) {
    auto engine = ParseEngine(text);
    if (!engine.ok()) return engine.status();
    engines.push_back(*std::move(engine));
  }
  OptionMap common;
  for (const std::string& text : g.engine_options) {
    if (auto status = AddOption(text, &common); !status.ok()) return status;
  }
  if (auto status = AddCommonOptions(common, &engines); !status.ok()) return status;
  return engines;
}

absl::Status AddSubjects(const Given& g, BenchOptions* options) {
  const auto engines = ParseEngines(g);
  if (!engines.ok()) return engines.status();
  std::vector<KeyShape> shapes;
  for (const std::string& name : g.key_shapes) {
    const auto shape = ParseKeyShape(name);
    if (!shape.ok()) return shape.status();
    shapes.push_back(*shape);
  }
  for (const std::string& name : g.key_formats) {
    const auto format = ParseKeyFormat(name);
    if (!format.ok()) return format.status();
    const bool bytes = *format == KeyFormat::kBytes;
    for (Subject subject : *engines) {
      subject.key_format = *format;
      subject.value_bytes = bytes ? g.value_bytes : 8;
      subject.inline_pairs = bytes && g.inline_pairs;
      for (size_t i = 0; i < (bytes ? shapes.size() : 1); ++i) {
        subject.key_shape = shapes[i];
        options->subjects.push_back(subject);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status AddPhases(const Given& g, BenchOptions* options) {
  const auto distribution = ParseDistribution(g.distribution);
  if (!distribution.ok()) return distribution.status();
  options->load_distribution = *distribution;
  bool loaded = false;
  for (const std::string& text : g.workloads) {
    const auto phase = ParsePhase(text, *distribution);
    if (!phase.ok()) return phase.status();
    if (phase->workload == Workload::kLoad) {
      if (loaded || !options->phases.empty()) {
        return absl::InvalidArgumentError("--workload: load comes first and once");
      }
      options->load_distribution = phase->distribution;
      loaded = true;
    }
    options->phases.push_back(*phase);
  }
  return absl::OkStatus();
}

absl::Status AddGroups(const Given& g, BenchOptions* options) {
  options->groups.clear();
  for (const std::string& text : g.groups) {
    const auto group = ParseGrouping(text);
    if (!group.ok()) return group.status();
    options->groups.push_back(*group);
  }
  return absl::OkStatus();
}

absl::Status CheckCounts(const BenchOptions& options) {
  if (options.keys < 1000 || options.keys > kMaxKeys) {
    return absl::InvalidArgumentError(
        absl::StrCat("--keys is ", options.keys, "; it must be from 1000 to ", kMaxKeys));
  }
  if (options.ops < 100 || options.ops > kMaxKeys) {
    return absl::InvalidArgumentError(
        absl::StrCat("--ops is ", options.ops, "; it must be from 100 to ", kMaxKeys));
  }
  if (options.latency_ops > kMaxKeys) {
    return absl::InvalidArgumentError(
        absl::StrCat("--latency-ops is ", options.latency_ops, "; it must be at most ", kMaxKeys));
  }
  return absl::OkStatus();
}

absl::Status CheckBulkLoad(const BenchOptions& options) {
  if (options.bulk_load_fill == 0) return absl::OkStatus();
  for (const Subject& subject : options.subjects) {
    if ((*FindEngine(subject.engine))->bulk_load != nullptr) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--bulk-load-fill: ", std::string(NoBulkLoad(subject.engine).message())));
  }
  return absl::OkStatus();
}

absl::Status CheckPool(const BenchOptions& options) {
  const auto persistent = std::count_if(options.subjects.begin(), options.subjects.end(),
                                        [](const Subject& s) { return s.persistent; });
  if (persistent > 0 && options.pool_path.empty()) {
    return absl::InvalidArgumentError(
        "--pool is missing: a persistent engine needs a pool file, such as "
        "--pool /dev/shm/bench.pool with PMEM_IS_PMEM_FORCE=1 in the environment");
  }
  if (persistent > 1 && options.pool_path.starts_with("/dev/dax")) {
    return absl::InvalidArgumentError(
        absl::StrCat("--pool ", options.pool_path, " is one device, but ", persistent,
                     " pools are asked for: measure one engine and key format at a time"));
  }
  if (options.Measures(Workload::kRecover) &&
      persistent != static_cast<ptrdiff_t>(options.subjects.size())) {
    return absl::InvalidArgumentError(
        "--workload: recover is for persistent engines; dram and null have nothing to recover");
  }
  if (options.kill_after_load && options.subjects.size() != 1) {
    return absl::InvalidArgumentError("--kill-after-load: one engine and one key format at a time");
  }
  return absl::OkStatus();
}

BenchOptions Complete(const Given& g) {
  BenchOptions options;
  options.keys = g.keys;
  options.bulk_load_fill = g.bulk_load_fill;
  options.ops = g.ops.value_or(std::min(g.keys, kDefaultOps));
  options.latency_ops = g.latency_ops.value_or(std::min(options.ops, kDefaultLatencyOps));
  options.op_end = g.latency_end == "drained" ? OpEnd::kDrained : OpEnd::kRetired;
  options.chunks = g.chunks;
  options.threads = g.threads;
  options.recovery_threads = g.recovery_threads;
  if (options.recovery_threads.empty()) {
    options.recovery_threads = {std::max(1U, std::thread::hardware_concurrency())};
  }
  options.repeat = g.repeat;
  options.seed = g.seed;
  options.pool_path = g.pool_path;
  options.store.pool_size_bytes = g.pool_size_bytes;
  options.store.process_durability = g.durability == "process";
  options.store.allow_volatile_medium = g.allow_volatile_medium;
  options.json_path = g.json_path;
  options.baselines = !g.no_baselines;
  options.pin = !g.no_pin;
  options.keep_pool = g.keep_pool;
  options.kill_after_load = g.kill_after_load;
  return options;
}

std::string OnOff(bool value) { return value ? "on" : "off"; }

void Show(const Given& g, BenchOptions* options) {
  options->shown = {
      {"engine", absl::StrJoin(g.engines, ",")},
      {"engine-option", absl::StrJoin(g.engine_options, " ")},
      {"key-format", absl::StrJoin(g.key_formats, ",")},
      {"key-shape", absl::StrJoin(g.key_shapes, ",")},
      {"value-size", absl::StrCat(g.value_bytes)},
      {"inline-pairs", OnOff(g.inline_pairs)},
      {"workload", absl::StrJoin(g.workloads, ",")},
      {"distribution", g.distribution},
      {"keys", absl::StrCat(options->keys)},
      {"bulk-load-fill", g.bulk_load_fill == 0 ? "off" : absl::StrCat(g.bulk_load_fill)},
      {"ops", absl::StrCat(options->ops)},
      {"latency-ops", absl::StrCat(options->latency_ops)},
      {"latency-end", g.latency_end},
      {"chunks", absl::StrCat(options->chunks)},
      {"threads", absl::StrJoin(options->threads, ",")},
      {"group", absl::StrJoin(g.groups, ",")},
      {"recovery-threads", absl::StrJoin(options->recovery_threads, ",")},
      {"repeat", absl::StrCat(options->repeat)},
      {"seed", absl::StrCat(options->seed)},
      {"pool", options->pool_path},
      {"pool-size", g.pool_size_bytes == 0 ? "by keys and sizes" : absl::StrCat(g.pool_size_bytes)},
      {"durability", g.durability},
      {"allow-volatile-medium", OnOff(g.allow_volatile_medium)},
      {"baselines", OnOff(options->baselines)},
      {"pin", OnOff(options->pin)},
      {"json", options->json_path},
  };
  for (const Subject& subject : options->subjects) {
    const auto values =
        OptionValues::Parse((*FindEngine(subject.engine))->options, subject.engine_options);
    if (!values.ok() || values->values().empty()) continue;
    const std::pair<std::string, std::string> row = {
        absl::StrCat("options of ", subject.engine),
        absl::StrJoin(values->values(), " ", absl::PairFormatter("="))};
    if (std::find(options->shown.begin(), options->shown.end(), row) == options->shown.end()) {
      options->shown.push_back(row);
    }
  }
}

}  // namespace

bool BenchOptions::Measures(Workload workload) const {
  return std::any_of(phases.begin(), phases.end(),
                     [&](const Phase& phase) { return phase.workload == workload; });
}

bool BenchOptions::MeasuresOperations() const {
  return kill_after_load || std::any_of(phases.begin(), phases.end(), [](const Phase& phase) {
           return !RunsAlone(phase.workload);
         });
}

absl::StatusOr<std::optional<BenchOptions>> ParseBenchOptions(int argc, const char* const* argv) {
  Given given;
  CLI::App app("Measures index engines in process, beside absl::btree_map and one flushed line.");
  app.option_defaults()->always_capture_default();
  app.footer(EngineHelp());
  AddSubjectOptions(app, given);
  AddWorkOptions(app, given);
  AddRunOptions(app, given);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(absl::StrCat(error.what(), " (--help lists the options)"));
  }
  BenchOptions options = Complete(given);
  if (auto status = AddSubjects(given, &options); !status.ok()) return status;
  if (auto status = AddPhases(given, &options); !status.ok()) return status;
  if (auto status = AddGroups(given, &options); !status.ok()) return status;
  if (auto status = CheckCounts(options); !status.ok()) return status;
  if (auto status = CheckBulkLoad(options); !status.ok()) return status;
  if (auto status = CheckPool(options); !status.ok()) return status;
  Show(given, &options);
  return options;
}

}  // namespace lodgekv::bench
