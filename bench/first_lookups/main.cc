// first_lookups: what an engine serves right after a kill with its log full (SPTree, Figure 10). A
// process loads a pool, writes single pairs until the log is full, and kills itself. Others open
// the pool, one after the other, look random keys up from the first moment on, and kill themselves:
// how many were answered within 1, 10, 100 and 1,000 ms from the begin of the opening, once with
// each value of an engine option.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/engine_bench/pool_files.h"
#include "index/key_format_name.h"
#include "index/store.h"
#include "nlohmann/json.hpp"

namespace lodgekv::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array<double, 4> kWithinMs = {1, 10, 100, 1000};
constexpr uint64_t kGroup = 256;

struct Options {
  std::string engine = "sptree";
  std::string key_format = "fixed64";
  std::string pool;
  std::vector<std::string> engine_options = {"write_buffer_pairs=14"};
  std::string switched = "lazy_replay";
  std::vector<std::string> values = {"1", "0"};
  uint64_t keys = 1'000'000;
  uint64_t logged = 0;
  unsigned kills = 5;
};

// What a process that opened the pool has seen.
struct Seen {
  double open_ms = 0;
  double open_cpu_ms = 0;
  double first_ms = 0;
  uint64_t log_bytes = 0;
  std::array<uint64_t, kWithinMs.size()> served{};
};

// splitmix64: distinct for distinct numbers.
uint64_t Scattered(uint64_t n) {
  n = (n ^ (n >> 30)) * 0xBF58476D1CE4E5B9ull;
  n = (n ^ (n >> 27)) * 0x94D049BB133111EBull;
  return n ^ (n >> 31);
}

class Keys {
 public:
  explicit Keys(const Options& options) : fixed_(options.key_format == "fixed64") {}
  std::string At(uint64_t number) const {
    const uint64_t word = Scattered(number);
    if (!fixed_) return absl::StrFormat("user:%020d", word);
    return {reinterpret_cast<const char*>(&word), sizeof(word)};
  }

 private:
  const bool fixed_;
};

StoreOptions StoreOptionsOf(const Options& options, const std::string& value) {
  StoreOptions store;
  store.engine = options.engine;
  store.pool_path = options.pool;
  store.key_format = options.key_format == "fixed64" ? KeyFormat::kFixed64 : KeyFormat::kBytes;
  store.pool_size_bytes = std::max(uint64_t{256} << 20, options.keys * 200);
  store.allow_volatile_medium = true;
  for (const std::string& option : options.engine_options) {
    const size_t at = option.find('=');
    store.engine_options[option.substr(0, at)] = option.substr(at + 1);
  }
  store.engine_options[options.switched] = value;
  return store;
}

uint64_t LogBytes(Engine& engine) {
  double bytes = 0;
  engine.VisitCounters([&](const CounterSample& sample) {
    if (sample.name == "log_live_bytes") bytes = sample.value;
  });
  return static_cast<uint64_t>(bytes);
}

bool Put(Engine& engine, const std::vector<std::string>& keys, std::string_view value) {
  std::vector<WriteOp> ops;
  for (const std::string& key : keys) {
    ops.push_back({.kind = WriteKind::kPut, .key = key, .value = value});
  }
  std::vector<WriteResult> results(ops.size());
  return engine.Write(ops, results, {}) == Outcome::kOk;
}

// All keys in groups, and then new values of some, one by one.
absl::Status Load(const Options& options) {
  auto store = Store::Open(StoreOptionsOf(options, "1"));
  if (!store.ok()) return store.status();
  Engine& engine = (*store)->engine();
  const Keys keys(options);
  for (uint64_t i = 0; i < options.keys; i += kGroup) {
    std::vector<std::string> group;
    for (uint64_t k = i; k < std::min(options.keys, i + kGroup); ++k) group.push_back(keys.At(k));
    if (!Put(engine, group, "loaded 8")) return absl::InternalError("a put has failed");
  }
  for (uint64_t i = 0; i < options.logged; ++i) {
    const std::string key = keys.At(Scattered(~i) % options.keys);
    if (!Put(engine, {key}, "logged 8")) return absl::InternalError("a put has failed");
  }
  std::fprintf(stderr, "loaded %llu keys; %.1f MiB of logs\n",
               static_cast<unsigned long long>(options.keys),
               static_cast<double>(LogBytes(engine)) / (1 << 20));
  kill(getpid(), SIGKILL);
  return absl::OkStatus();
}

// Of this process.
double CpuMs() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) * 1e3 + static_cast<double>(used.tv_nsec) / 1e6;
}

absl::Status Look(const Options& options, const std::string& value, int result) {
  const Keys keys(options);
  Seen seen;
  const double cpu_before = CpuMs();
  const Clock::time_point begin = Clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  };
  auto store = Store::Open(StoreOptionsOf(options, value));
  if (!store.ok()) return store.status();
  seen.open_ms = elapsed();
  seen.open_cpu_ms = CpuMs() - cpu_before;
  Engine& engine = (*store)->engine();
  for (uint64_t i = 0;; ++i) {
    const std::string key = keys.At(Scattered(i + 7) % options.keys);
    const std::string_view view = key;
    ReadResult read;
    const Outcome outcome = engine.Read({&view, 1}, {&read, 1}, {});
    if (outcome != Outcome::kOk || !read.found) return absl::DataLossError("a key is missing");
    const double now = elapsed();
    if (i == 0) seen.first_ms = now;
    for (size_t w = 0; w < kWithinMs.size(); ++w) seen.served[w] += now <= kWithinMs[w] ? 1 : 0;
    if (now > kWithinMs.back()) break;
  }
  seen.log_bytes = LogBytes(engine);
  if (write(result, &seen, sizeof(seen)) != sizeof(seen)) return absl::InternalError("no pipe");
  kill(getpid(), SIGKILL);
  return absl::OkStatus();
}

// False: it did not kill itself.
bool InProcess(const std::function<absl::Status()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    const absl::Status status = work();
    std::fprintf(stderr, "first_lookups: %s\n", std::string(status.message()).c_str());
    _exit(1);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
         WTERMSIG(status) == SIGKILL;
}

bool Measure(const Options& options, const std::string& value) {
  int ends[2];
  if (pipe(ends) != 0) return false;
  Seen seen;
  const bool done = InProcess([&] { return Look(options, value, ends[1]); }) &&
                    read(ends[0], &seen, sizeof(seen)) == sizeof(seen);
  close(ends[0]);
  close(ends[1]);
  if (!done) return false;
  nlohmann::json row = {{"engine", options.engine},    {"key_format", options.key_format},
                        {"keys", options.keys},        {options.switched, value},
                        {"open_ms", seen.open_ms},     {"first_ms", seen.first_ms},
                        {"log_bytes", seen.log_bytes}, {"open_cpu_ms", seen.open_cpu_ms}};
  for (size_t w = 0; w < kWithinMs.size(); ++w) {
    row["served"][absl::StrCat(kWithinMs[w])] = seen.served[w];
  }
  std::printf("%s\n", row.dump().c_str());
  std::fflush(stdout);
  return true;
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Counts the lookups that an engine serves right after a kill with its log full.");
  app.option_defaults()->always_capture_default();
  app.add_option("--engine", options.engine);
  app.add_option("--key-format", options.key_format)->check(CLI::IsMember({"fixed64", "bytes"}));
  app.add_option("--pool", options.pool, "file to create, and to remove")
      ->required()
      ->check(CLI::NonexistentPath);
  app.add_option("--engine-option", options.engine_options, "NAME=VALUE");
  app.add_option("--switch", options.switched, "the option");
  app.add_option("--values", options.values, "its values, in turn")->delimiter(',');
  app.add_option("--keys", options.keys);
  app.add_option("--logged", options.logged, "pairs written by themselves after the load");
  app.add_option("--kills", options.kills, "openings with each value");
  CLI11_PARSE(app, argc, argv);
  bool done = InProcess([&] { return Load(options); });
  // Without the switch SPTree gives up what it starts at once by: that comes last.
  for (const std::string& value : options.values) {
    for (unsigned i = 0; done && i < options.kills; ++i) done = Measure(options, value);
  }
  RemovePoolFiles(options.pool);
  return done ? 0 : 1;
}

}  // namespace
}  // namespace lodgekv::bench

int main(int argc, char** argv) {
  try {
    return lodgekv::bench::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "first_lookups: %s\n", error.what());
    return 1;
  }
}
