// beside_background: what an engine's background thread costs those that read and write meanwhile,
// such as a rebuild of TLBtree's top layer.
#include <cstdio>
#include <exception>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/beside_background/turns.h"
#include "bench/engine_bench/engine_target.h"
#include "bench/engine_bench/plan.h"

namespace lodgekv::bench {
namespace {

constexpr uint64_t kSeed = 1;

struct Options {
  std::string engine = "tlbtree";
  std::string key_format = "fixed64";
  std::string pool_path;
  uint64_t keys = 1'000'000;
  uint64_t ops = 1'000'000;
};

void Print(const char* name, const TurnSums& sums) {
  const auto mean = [](double seconds, uint64_t count) {
    return count == 0 ? 0 : seconds * 1e9 / static_cast<double>(count);
  };
  std::printf("%-8s %8llu %11.0f %9.0f %19llu\n", name,
              static_cast<unsigned long long>(sums.turns), mean(sums.insert_seconds, sums.inserts),
              mean(sums.read_seconds, sums.reads),
              static_cast<unsigned long long>(sums.most_lines));
}

absl::Status RunTurns(const Options& options, EngineTarget& target) {
  Turns turns(target, kSeed);
  if (auto status = turns.Load(options.keys); !status.ok()) return status;
  if (auto status = turns.Run(options.ops); !status.ok()) return status;
  std::printf("%s, %s, %llu keys loaded and %llu inserted; the background thread was\n",
              options.engine.c_str(), options.key_format.c_str(),
              static_cast<unsigned long long>(options.keys),
              static_cast<unsigned long long>(options.ops));
  std::printf("            turns   ns/insert   ns/read   lines of an insert\n");
  Print("at work", turns.at_work());
  Print("idle", turns.idle());
  target.VisitCounters([](const CounterSample& sample) {
    const bool told = sample.name == "rebuilds_total" || sample.name.starts_with("background_");
    if (told) std::printf("%s %g\n", std::string(sample.name).c_str(), sample.value);
  });
  return absl::OkStatus();
}

absl::Status Run(const Options& options) {
  const auto subject = FindSubject(options.engine, options.key_format);
  if (!subject.ok()) return subject.status();
  const uint64_t capacity = options.keys + options.ops + 64;
  StoreSettings settings;
  settings.pool_size_bytes = PoolBytesFor(*subject, capacity, 0);
  auto target = EngineTarget::Create(*subject, settings, options.pool_path, kSeed, capacity);
  if (!target.ok()) return target.status();
  const absl::Status ran = RunTurns(options, **target);
  const absl::Status closed = CloseOwnPool(**target, options.pool_path, /*keep_pool=*/false);
  return ran.ok() ? closed : ran;
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Times inserts and reads while an engine's background thread works, and while not.");
  app.option_defaults()->always_capture_default();
  app.add_option("--engine", options.engine);
  app.add_option("--key-format", options.key_format, "fixed64 or bytes");
  app.add_option("--pool", options.pool_path, "file to create, for a persistent engine");
  app.add_option("--keys", options.keys, "keys loaded before")
      ->check(CLI::Range(uint64_t{10'000}, uint64_t{1} << 32));
  app.add_option("--ops", options.ops, "inserts; four times as many reads")
      ->check(CLI::Range(uint64_t{10'000}, uint64_t{1} << 32));
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = Run(options);
  if (status.ok()) return 0;
  std::fprintf(stderr, "beside_background: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace lodgekv::bench

int main(int argc, char** argv) {
  try {
    return lodgekv::bench::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "beside_background: %s\n", error.what());
    return 1;
  }
}
