// load_ledger run|check|fill: the clients of tests/system/kill_loop_test.py, and their checker.
//
// Exit codes: 0 done, 1 the daemon has what it must not have (said on stderr), 2 usage, or a daemon
// or a file that cannot be read.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <thread>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/support/key_sets.h"
#include "tests/system/ledger/load_client.h"

namespace lodgekv::test {
namespace {

constexpr size_t kProblemsShown = 5;
// Keys that lie there from the beginning and are never written: so many in each range.
constexpr uint64_t kFillRange = uint64_t{1} << 20;
constexpr uint64_t kFillPlaces = uint64_t{1} << (kPlaceBits - 1);
constexpr uint64_t kFillBatch = 512;

struct Arguments {
  LoadOptions load;
  uint64_t threads = 1;
  uint64_t fill = 0;  // keys
  std::string out;
  std::string state;
  std::vector<std::string> ledgers;
};

// Coprime to whatever number of keys a test asks for: the order of the fill is none of the keys'.
constexpr uint64_t kFillStride = 1'000'003;

uint64_t FillNumber(uint64_t i) { return KeyNumber(kFillRange + i / kFillPlaces, i % kFillPlaces); }
std::string FillValue(KeyFormat format, uint64_t i) {
  return ValueOf(format, 1 + i, 8 + i % 3 * 20);
}

int Complain(const std::string& what) {
  std::fprintf(stderr, "load_ledger: %s\n", what.c_str());
  return 2;
}

int RunLoad(const Arguments& arguments) {
  std::vector<Ledger> ledgers(arguments.threads);
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < arguments.threads; ++i) {
    threads.emplace_back([&, i] {
      LoadOptions options = arguments.load;
      options.client += i;
      ledgers[i] = LoadClient(options).Run();
    });
  }
  for (std::thread& thread : threads) thread.join();
  Ledger all;
  for (const Ledger& ledger : ledgers) all.Add(ledger);
  all.Write(arguments.out);
  return 0;
}

int RunFill(const Arguments& arguments) {
  const auto client = client::Client::Create({.server = arguments.load.server});
  const KeyFormat format = arguments.load.format;
  for (uint64_t n = 0; n < arguments.fill;) {
    std::vector<client::BatchOp> ops;
    for (; n < arguments.fill && ops.size() < kFillBatch; ++n) {
      const uint64_t i = n * kFillStride % arguments.fill;
      ops.push_back({LedgerKey(format, FillNumber(i)), FillValue(format, i), {}});
    }
    const auto results = client->BatchWrite(ops);
    if (!results.ok()) return Complain(results.status().ToString());
  }
  return 0;
}

State ReadState(const std::string& path) {
  State state;
  std::ifstream in(path);
  uint64_t key = 0;
  uint64_t id = 0;
  while (in >> key >> id) state[key] = id;
  return state;
}

int64_t SystemMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Everything that the daemon has; keys of the fill are counted, not kept.
absl::StatusOr<Found> ReadAll(const Arguments& arguments, uint64_t* filled) {
  const auto client =
      client::Client::Create({.server = arguments.load.server, .timeout = absl::Minutes(5)});
  const KeyFormat format = arguments.load.format;
  Found found;
  found.begin_ms = SystemMs();
  *filled = 0;
  const absl::Status status = client->Scan(
      {},
      [&](const client::ScanItem& item) {
        const std::string value(item.value);
        const auto number = LedgerNumber(format, item.key);
        const uint64_t id = LedgerValueId(format, value);
        if (!number.has_value() || id == kAbsent) {
          found.strangers.push_back(absl::StrCat("a key or value that nobody wrote: '",
                                                 absl::CEscape(std::string(item.key)), "' = '",
                                                 absl::CEscape(value.substr(0, 80)), "'"));
          return found.strangers.size() < 100;
        }
        if (RangeOf(*number) < kFillRange || *number != FillNumber(id - 1)) {
          found.values[*number] = id;
        } else {
          *filled += value == FillValue(format, id - 1) ? 1 : 0;
        }
        return true;
      },
      nullptr);
  found.end_ms = SystemMs();
  if (!status.ok()) return status;
  return found;
}

int RunCheck(const Arguments& arguments) {
  const std::string short_lived = arguments.state + ".short";
  Ledger all;
  for (const std::string& path : arguments.ledgers) {
    absl::StatusOr<Ledger> ledger = ReadLedger(path);
    if (!ledger.ok()) return Complain(ledger.status().ToString());
    all.Add(*ledger);
  }
  if (std::ifstream(short_lived).good()) {
    absl::StatusOr<Ledger> ledger = ReadLedger(short_lived);
    if (!ledger.ok()) return Complain(ledger.status().ToString());
    all.Add(*ledger);
  }
  uint64_t filled = 0;
  const absl::StatusOr<Found> found = ReadAll(arguments, &filled);
  if (!found.ok()) return Complain(found.status().ToString());
  Findings findings = Check(ReadState(arguments.state), all, *found);
  if (filled != arguments.fill) {
    findings.problems.push_back(absl::StrFormat(
        "%d of the %d keys that nobody wrote since are as they were", filled, arguments.fill));
  }
  std::ofstream state(arguments.state);
  for (const auto& [key, id] : found->values) state << key << ' ' << id << '\n';
  Ledger alive;
  for (const ShortLived& put : all.short_lived) {
    if (put.last_end_ms >= found->begin_ms) alive.short_lived.push_back(put);
  }
  alive.Write(short_lived);
  std::cout << findings.Line() << '\n';
  for (size_t i = 0; i < std::min(findings.problems.size(), kProblemsShown); ++i) {
    std::cerr << findings.problems[i] << '\n';
  }
  return findings.problems.empty() ? 0 : 1;
}

int Main(int argc, char** argv) {
  CLI::App app("Loads a daemon, keeps a ledger of it, and checks it against the ledger.",
               "load_ledger");
  app.require_subcommand(1);
  Arguments arguments;
  bool fixed64 = false;
  bool no_versions = false;
  app.add_option("--server", arguments.load.server)->required();
  app.add_flag("--fixed64", fixed64);
  app.add_flag("--no-versions", no_versions);
  CLI::App* run = app.add_subcommand("run", "Writes and reads until the daemon is gone");
  run->add_option("--cycle", arguments.load.cycle)->required();
  run->add_option("--first-client", arguments.load.client)->required();
  run->add_option("--threads", arguments.threads)->required();
  run->add_option("--operations", arguments.load.operations);
  run->add_option("--out", arguments.out)->required();
  CLI::App* fill = app.add_subcommand("fill", "Writes keys that stay as they are");
  fill->add_option("keys", arguments.fill)->required();
  CLI::App* check = app.add_subcommand("check", "Compares what is there with the ledgers");
  check->add_option("--fill", arguments.fill);
  check->add_option("--state", arguments.state)->required();
  check->add_option("ledgers", arguments.ledgers);
  CLI11_PARSE(app, argc, argv);
  arguments.load.format = fixed64 ? KeyFormat::kFixed64 : KeyFormat::kBytes;
  arguments.load.has_versions = !fixed64 && !no_versions;
  if (run->parsed()) return RunLoad(arguments);
  return fill->parsed() ? RunFill(arguments) : RunCheck(arguments);
}

}  // namespace
}  // namespace lodgekv::test

int main(int argc, char** argv) { return lodgekv::test::Main(argc, argv); }
