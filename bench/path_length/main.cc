// path_length: one engine along each of its paths, to be run under callgrind. scripts/path_lengths
// does so, and reads what comes out.
#include <unistd.h>
#include <valgrind/callgrind.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "bench/engine_bench/engine_target.h"
#include "bench/engine_bench/environment.h"
#include "bench/engine_bench/plan.h"
#include "bench/path_length/call_counter.h"
#include "bench/path_length/counted_call.h"
#include "bench/path_length/path_runner.h"
#include "index/registry.h"

namespace lodgekv::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kSeed = 1;

struct Options {
  std::string engine;
  std::string key_format = "fixed64";
  std::string pool_path;
  std::string ways_path;
  uint64_t keys = 200'000;
  uint64_t calls = 500;
  bool first_run = false;
  bool list = false;
};

std::string ReadFile(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// A row of the environment.
std::string Described(const std::string& name) {
  for (const auto& [row, value] : DescribeEnvironment()) {
    if (row == name) return value;
  }
  return "unknown";
}

Json DescribeBuild() {
  Json build = {{"compiler", Described("compiler")}, {"build_type", Described("build type")}};
  for (const EngineInfo* engine : AllEngines()) build["engines"].push_back(engine->name);
  return build;
}

void PrintCalls(const CallCounter& counter) {
  Json slots = Json::array();
  for (size_t p = 0; p < kPaths; ++p) {
    for (size_t w = 0; w < kWays; ++w) {
      const auto path = static_cast<Path>(p);
      const auto way = static_cast<Way>(w);
      const uint64_t calls = counter.calls(path, way);
      if (calls == 0) continue;
      slots.push_back({{"slot", SlotOf(path, way)},
                       {"path", PathName(path)},
                       {"way", WayName(way)},
                       {"calls", calls},
                       {"operations", calls * OperationsOf(path)}});
    }
  }
  std::printf("%s\n", slots.dump().c_str());
}

absl::Status RunPaths(const Options& options, EngineTarget& target) {
  CallCounter counter(target.store().engine(),
                      options.first_run ? std::string() : ReadFile(options.ways_path));
  PathRunner runner(target, counter, kSeed);
  if (auto status = runner.Load(options.keys); !status.ok()) return status;
  CALLGRIND_START_INSTRUMENTATION;
  for (size_t p = 0; p < kPaths; ++p) {
    const auto path = static_cast<Path>(p);
    if (auto status = runner.Run(path, CallsOf(path, options.calls)); !status.ok()) return status;
  }
  CALLGRIND_STOP_INSTRUMENTATION;
  if (auto status = counter.CheckRepeated(); !status.ok()) return status;
  if (options.first_run) {
    std::ofstream(options.ways_path) << counter.ways();
  } else {
    PrintCalls(counter);
  }
  return absl::OkStatus();
}

absl::Status Run(const Options& options) {
  const auto subject = FindSubject(options.engine, options.key_format);
  if (!subject.ok()) return subject.status();
  const uint64_t capacity = options.keys + PathRunner::MostKeysAdded(options.calls);
  StoreSettings settings;
  settings.pool_size_bytes = PoolBytesFor(*subject, capacity, 0);
  auto target = EngineTarget::Create(*subject, settings, options.pool_path, kSeed, capacity);
  if (!target.ok()) return target.status();
  const absl::Status ran = RunPaths(options, **target);
  const absl::Status closed = CloseOwnPool(**target, options.pool_path, /*keep_pool=*/false);
  return ran.ok() ? closed : ran;
}

void AddOptions(CLI::App& app, Options& options) {
  app.option_defaults()->always_capture_default();
  app.add_flag("--list", options.list, "print what this build is, and its engines");
  app.add_option("--engine", options.engine);
  app.add_option("--key-format", options.key_format, "fixed64 or bytes");
  app.add_option("--pool", options.pool_path, "file to create, for a persistent engine");
  app.add_option("--keys", options.keys, "keys of the tree")
      ->check(CLI::Range(uint64_t{10'000}, uint64_t{1} << 32));
  app.add_option("--calls", options.calls, "calls of each path of lone writes, fewer of others")
      ->check(CLI::Range(uint64_t{100}, uint64_t{1} << 24));
  app.add_option("--ways", options.ways_path,
                 "file that a run with --first writes, and one without reads");
  app.add_flag("--first", options.first_run, "note which way each call takes, for the run to come");
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Calls one engine along each of its paths, to be counted by callgrind.");
  AddOptions(app, options);
  CLI11_PARSE(app, argc, argv);
  if (options.list) {
    std::printf("%s\n", DescribeBuild().dump().c_str());
    return 0;
  }
  const absl::Status status = Run(options);
  if (status.ok()) return 0;
  std::fprintf(stderr, "path_length: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace lodgekv::bench

int main(int argc, char** argv) {
  try {
    return lodgekv::bench::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "path_length: %s\n", error.what());
    return 1;
  }
}
