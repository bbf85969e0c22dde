// server_bench: keeps puts, or operations of YCSB's workloads, in flight against one server on this
// machine, and times them. bench_file.py and call_rounds.py start servers and compare them.
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "base/lock_order.h"
#include "bench/engine_bench/environment.h"
#include "bench/engine_bench/report.h"
#include "bench/server_bench/put_run.h"
#include "bench/server_bench/ycsb_run.h"
#include "client/workload/insert_sequence.h"
#include "index/registry.h"
#include "nlohmann/json.hpp"

namespace lodgekv::server_bench {
namespace {

constexpr unsigned kMostInFlight = 65'536;
constexpr double kMostSeconds = 600;

struct Given {
  PutPlan plan;
  std::vector<unsigned> in_flight = {1, 64, 256};
  double warm_up_seconds = 0.5;
  double seconds = 5;
  std::string samples_path;
  bool environment = false;
  bool engines = false;
  std::vector<char> workloads;  // of YCSB
  std::optional<workload::YcsbDistribution> distribution;
  size_t value_bytes = kYcsbValueBytes;
  bool load = false;
  bool any_answer = false;
};

// A quarter of the machine's cores: the server needs the rest.
unsigned DefaultThreads() { return std::max(1U, std::thread::hardware_concurrency() / 4); }

void AddOptions(CLI::App& app, Given& given) {
  const std::map<std::string, Protocol> protocols = {
      {"lodgekv", Protocol::kLodgekv}, {"etcd", Protocol::kEtcd}, {"redis", Protocol::kRedis}};
  app.add_flag("--environment", given.environment, "Print where this runs, and end");
  app.add_flag("--engines", given.engines, "Print the persistent engines of this build, and end");
  app.add_option("--protocol", given.plan.protocol, "Of the server")
      ->transform(CLI::CheckedTransformer(protocols));
  app.add_option("--server", given.plan.server, "Its address, 127.0.0.1:PORT");
  app.add_option("--in-flight", given.in_flight, "Puts in flight, a phase for each number")
      ->delimiter(',')
      ->check(CLI::Range(1U, kMostInFlight));
  app.add_option("--connections", given.plan.connections, "That share the puts in flight")
      ->check(CLI::Range(1U, kMostInFlight));
  app.add_option("--threads", given.plan.threads, "That share the connections")
      ->check(CLI::Range(1U, 256U));
  app.add_option("--warm-up", given.warm_up_seconds, "Seconds of each phase that do not count")
      ->check(CLI::Range(0.0, kMostSeconds));
  app.add_option("--seconds", given.seconds, "Seconds of each phase that count")
      ->check(CLI::Range(0.01, kMostSeconds));
  app.add_option("--puts", given.plan.most_puts, "Most operations of a phase; 0: as many as go");
  app.add_option("--keys", given.plan.key_space, "Keys are drawn from so many")
      ->check(CLI::PositiveNumber);
  app.add_option("--seed", given.plan.seed, "Of the draw");
  app.add_option("--samples", given.samples_path,
                 "Write each put to this file: two 64-bit integers, when it was answered "
                 "(CLOCK_MONOTONIC) and its latency, in nanoseconds");
}

void AddYcsbOptions(CLI::App& app, Given& given) {
  const std::map<std::string, workload::YcsbDistribution> distributions = {
      {"uniform", workload::YcsbDistribution::kUniform},
      {"zipfian", workload::YcsbDistribution::kZipfian},
      {"latest", workload::YcsbDistribution::kLatest}};
  auto* workload =
      app.add_option("--workload", given.workloads,
                     "Instead of puts: of YCSB, a to f, of LodgeKV alone; phases for each")
          ->delimiter(',')
          ->check(CLI::IsMember({'a', 'b', 'c', 'd', 'e', 'f'}))
          ->excludes(app.get_option("--samples"))
          ->excludes(app.get_option("--protocol"));
  app.add_option("--distribution", given.distribution, "Of the records, not the workload's own")
      ->transform(CLI::CheckedTransformer(distributions))
      ->needs(workload);
  app.add_option("--value-bytes", given.value_bytes, "Of each value of a workload")
      ->check(CLI::Range(1, 1'048'576))
      ->needs(workload);
  app.add_flag("--load", given.load, "Put all --keys before the first workload")->needs(workload);
  app.add_flag("--any-answer", given.any_answer, "Do not check that records are found")
      ->needs(workload);
}

int Fail(const std::string& message) {
  std::fflush(stdout);
  std::fprintf(stderr, "server_bench: %s\n", message.c_str());
  return 1;
}

std::string ToJson(const PutPlan& plan, const PutResult& result) {
  const auto microseconds = [&](double fraction) {
    return result.latencies.Percentile(fraction) / 1e3;
  };
  const nlohmann::ordered_json row = {
      {"in_flight", plan.in_flight},    {"puts", result.latencies.total()},
      {"seconds", result.seconds},      {"puts_per_second", result.PutsPerSecond()},
      {"p50_us", microseconds(0.5)},    {"p99_us", microseconds(0.99)},
      {"p999_us", microseconds(0.999)},
  };
  return row.dump();
}

bool WriteSamples(const std::string& path, const std::vector<PutSample>& samples) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(samples.data()),
             static_cast<std::streamsize>(samples.size() * sizeof(PutSample)));
  return file.flush().good();
}

void PrintEnvironment() {
  std::fputs(bench::FormatRows("environment", bench::DescribeEnvironment()).c_str(), stdout);
  for (const std::string& warning : bench::EnvironmentWarnings()) {
    std::printf("warning: %s\n", warning.c_str());
  }
}

PutPlan PhaseOf(const Given& given, unsigned in_flight) {
  const auto milliseconds = [](double seconds) {
    return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3));
  };
  PutPlan plan = given.plan;
  plan.in_flight = in_flight;
  plan.warm_up = milliseconds(given.warm_up_seconds);
  plan.time = milliseconds(given.seconds);
  plan.keep_samples = !given.samples_path.empty();
  return plan;
}

int RunPutPhases(const Given& given) {
  for (const unsigned in_flight : given.in_flight) {
    const PutPlan plan = PhaseOf(given, in_flight);
    const auto result = RunPuts(plan);
    if (!result.ok()) return Fail(absl::StrCat(plan.server, ": ", result.status().message()));
    std::puts(ToJson(plan, *result).c_str());
    std::fflush(stdout);
    if (plan.keep_samples && !WriteSamples(given.samples_path, result->samples)) {
      return Fail("cannot write " + given.samples_path);
    }
  }
  return 0;
}

nlohmann::ordered_json LatenciesOf(const workload::Histogram& histogram) {
  return {{"operations", histogram.total()},
          {"p50_us", histogram.Percentile(0.5) / 1e3},
          {"p99_us", histogram.Percentile(0.99) / 1e3},
          {"p999_us", histogram.Percentile(0.999) / 1e3}};
}

std::string ToJson(const YcsbPlan& plan, const YcsbResult& result) {
  const auto operations = static_cast<double>(result.all.total());
  nlohmann::ordered_json row = {
      {"workload", std::string(1, plan.workload.letter)},
      {"distribution", workload::NameOf(plan.workload.distribution)},
      {"records", plan.phase.key_space},
      {"value_bytes", plan.value_bytes},
      {"in_flight", plan.phase.in_flight},
      {"seconds", result.seconds},
      {"operations_per_second", result.seconds > 0 ? operations / result.seconds : 0}};
  row.update(LatenciesOf(result.all));
  for (size_t i = 0; i < workload::kYcsbOperations; ++i) {
    if (result.each[i].total() == 0) continue;
    row["each"][workload::NameOf(static_cast<workload::YcsbOperation>(i))] =
        LatenciesOf(result.each[i]);
  }
  return row.dump();
}

int RunWorkloads(const Given& given) {
  YcsbPlan plan;
  plan.value_bytes = given.value_bytes;
  plan.any_answer = given.any_answer;
  plan.phase = PhaseOf(given, 1);
  if (given.load) {
    if (const absl::Status status = LoadYcsb(plan); !status.ok()) {
      return Fail(std::string(status.message()));
    }
  }
  workload::InsertSequence inserts(plan.phase.key_space);
  for (const char letter : given.workloads) {
    plan.workload = workload::WorkloadOf(letter);
    plan.workload.distribution = given.distribution.value_or(plan.workload.distribution);
    for (const unsigned in_flight : given.in_flight) {
      plan.phase = PhaseOf(given, in_flight);
      const auto result = RunYcsb(plan, inserts);
      if (!result.ok())
        return Fail(absl::StrCat(plan.phase.server, ": ", result.status().message()));
      std::puts(ToJson(plan, *result).c_str());
      std::fflush(stdout);
    }
  }
  return 0;
}

int RunPhases(const Given& given) {
  if (given.plan.server.empty()) return Fail("--server is missing: 127.0.0.1:PORT");
  return given.workloads.empty() ? RunPutPhases(given) : RunWorkloads(given);
}

int Main(int argc, char** argv) {
  Given given;
  given.plan.connections = 4;
  given.plan.threads = DefaultThreads();
  CLI::App app("Keeps operations in flight against one server of this machine; prints JSON lines.");
  app.option_defaults()->always_capture_default();
  AddOptions(app, given);
  AddYcsbOptions(app, given);
  CLI11_PARSE(app, argc, argv);
  if (given.environment) PrintEnvironment();
  if (given.engines) {
    for (const EngineInfo* engine : AllEngines()) {
      if (engine->persistent) std::puts(std::string(engine->name).c_str());
    }
  }
  return given.environment || given.engines ? 0 : RunPhases(given);
}

}  // namespace
}  // namespace lodgekv::server_bench

int main(int argc, char** argv) {
  lodgekv::SkipLockOrderCheck();
  try {
    return lodgekv::server_bench::Main(argc, argv);
  } catch (const std::exception& error) {
    return lodgekv::server_bench::Fail(error.what());
  }
}
