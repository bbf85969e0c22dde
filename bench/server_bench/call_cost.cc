// call_cost: what one kind of call costs a server in processor time and how long it takes, beside
// what the engine takes for the same records in process. call_rounds.py starts the servers.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "base/lock_order.h"
#include "bench/server_bench/engine_calls.h"
#include "bench/server_bench/loopback.h"
#include "bench/server_bench/process_cost.h"
#include "bench/server_bench/put_recorder.h"
#include "bench/server_bench/read_counts.h"
#include "bench/server_bench/request_source.h"
#include "bench/server_bench/server_calls.h"
#include "bench/server_bench/typical_answer.h"
#include "client/workload/arrival_schedule.h"
#include "client/workload/histogram.h"
#include "index/store.h"
#include "nlohmann/json.hpp"

namespace lodgekv::server_bench {
namespace {

// Records of a call while the store is filled.
constexpr uint64_t kFillBatch = 100;
// Requests that are made before the engine is timed with them.
constexpr size_t kRequestsAtOnce = 32;
constexpr unsigned kFillsInFlight = 4;

struct Given {
  CallKind kind = CallKind::kBatchWrite;
  uint64_t batch = 100;
  uint64_t keys = 1'000'000;
  size_t value_bytes = kValueBytes;
  uint64_t seed = 1;
  double warm_up_seconds = 0;
  double seconds = 3;
  uint64_t calls = 0;  // instead of seconds
  std::string server;
  uint64_t server_pid = 0;
  unsigned in_flight = 8;
  unsigned connections = 1;
  uint64_t rate = 0;   // calls a second of an open loop
  std::string counts;  // the file of process_counter.cc
  bool filled = false;
  bool all_found = false;
  StoreOptions store;
};

void AddOptions(CLI::App& app, Given& given) {
  const std::map<std::string, CallKind> kinds = {{"get", CallKind::kGet},
                                                 {"put", CallKind::kPut},
                                                 {"batch_get", CallKind::kBatchGet},
                                                 {"batch_write", CallKind::kBatchWrite},
                                                 {"scan", CallKind::kScan},
                                                 {"scan_all", CallKind::kScanAll},
                                                 {"session_get", CallKind::kSessionGet},
                                                 {"session_put", CallKind::kSessionPut}};
  const auto with_underscores = [](std::string word) {
    std::replace(word.begin(), word.end(), '-', '_');
    return word;
  };
  app.add_option(
         "--call", given.kind,
         "The kind of call; scan: a page, scan_all: every record; session_get, session_put: a "
         "message of a session")
      ->transform(CLI::CheckedTransformer(kinds, with_underscores));
  app.add_option("--batch", given.batch, "Records of a batch or page")->check(CLI::Range(1, 1'024));
  app.add_option("--keys", given.keys, "Keys are drawn from so many, all of which are put first")
      ->check(CLI::Range(1, 1'000'000'000));
  app.add_option("--value-bytes", given.value_bytes, "Of each value that is put while it counts")
      ->check(CLI::Range(1, 16'777'216));
  app.add_option("--seed", given.seed, "Of the draw");
  app.add_option("--warm-up", given.warm_up_seconds, "Seconds before, that do not count")
      ->check(CLI::Range(0.0, 600.0));
  app.add_option("--seconds", given.seconds, "That count")->check(CLI::Range(0.01, 600.0));
}

void AddServerOptions(CLI::App& app, Given& given) {
  auto* server = app.add_option("--server", given.server, "127.0.0.1:PORT or unix:PATH");
  app.add_option("--server-pid", given.server_pid, "The process whose time counts")->needs(server);
  app.add_option("--in-flight", given.in_flight, "Calls in flight")->check(CLI::Range(1, 4'096));
  app.add_option("--connections", given.connections, "That share the calls in flight")
      ->check(CLI::Range(1, 256));
  app.add_option("--rate", given.rate,
                 "Calls a second, made when they are due whether others are answered or not, with "
                 "latencies from then on; 0: --in-flight counts")
      ->check(CLI::Range(0, 10'000'000))
      ->needs(server);
  app.add_option("--calls", given.calls, "So many, instead of --seconds; 0: --seconds counts")
      ->needs(server);
  app.add_option("--counts", given.counts, "The file in which process_counter counts the server")
      ->needs(server);
  app.add_flag("--filled", given.filled, "The server has all keys from an earlier run")
      ->needs(server);
  app.add_flag("--all-found", given.all_found,
               "An answer that is too small to have found everything is an error")
      ->needs(server);
  app.add_option("--engine", given.store.engine, "Of the store, without --server");
  app.add_option("--pool", given.store.pool_path, "Of the store, a file to create");
  app.add_option("--pool-size", given.store.pool_size_bytes, "Its bytes");
}

absl::Status PutAll(const Given& given, Engine& engine) {
  PutSource source(given.seed, given.keys);
  for (uint64_t first = 0; first < given.keys; ++first) {
    source.NextBelow(first, 1);
    const WriteOp op{.key = source.key(), .value = source.value()};
    WriteResult result;
    if (engine.Write({&op, 1}, {&result, 1}, {}) == Outcome::kOk) continue;
    return absl::ResourceExhaustedError(absl::StrCat("record ", first, " was not put"));
  }
  return absl::OkStatus();
}

// Of all threads of this process: what an engine does in the background counts, as it does in a
// server's.
uint64_t ProcessNs() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

nlohmann::ordered_json RowOf(const Given& given, uint64_t calls, double seconds,
                             const ProcessCost& cost) {
  const auto all = static_cast<double>(std::max<uint64_t>(calls, 1));
  const double operations = all * static_cast<double>(given.batch);
  return {{"calls", calls},
          {"calls_per_second", static_cast<double>(calls) / seconds},
          {"operations_per_second", static_cast<double>(calls * given.batch) / seconds},
          {"processor_ns_per_operation", static_cast<double>(cost.processor_ns) / operations},
          {"processor_us_per_call", static_cast<double>(cost.processor_ns) / 1e3 / all},
          {"sleeps_per_call", static_cast<double>(cost.sleeps) / all}};
}

void AddCounts(uint64_t calls, const ProcessCounts& counts, nlohmann::ordered_json& row) {
  const auto a_call = [calls](uint64_t count) {
    return static_cast<double>(count) / static_cast<double>(std::max<uint64_t>(calls, 1));
  };
  row["allocations_per_call"] = a_call(counts.allocations);
  row["allocated_bytes_per_call"] = a_call(counts.allocated_bytes);
  row["copies_per_call"] = a_call(counts.copies);
  row["copied_bytes_per_call"] = a_call(counts.copied_bytes);
  row["system_calls_per_call"] = a_call(counts.system_calls);
}

void AddLatencies(const Given& given, const workload::Histogram& latencies,
                  nlohmann::ordered_json& row) {
  if (given.rate > 0) row["wanted_calls_per_second"] = given.rate;
  row["p50_us"] = latencies.Percentile(0.5) / 1e3;
  row["p99_us"] = latencies.Percentile(0.99) / 1e3;
  row["p999_us"] = latencies.Percentile(0.999) / 1e3;
  row["max_us"] = latencies.Percentile(1) / 1e3;
}

absl::Status RunEngine(Given& given) {
  given.store.allow_volatile_medium = true;
  auto store = Store::Open(given.store);
  if (!store.ok()) return store.status();
  Engine& engine = (*store)->engine();
  if (absl::Status status = PutAll(given, engine); !status.ok()) return status;
  RequestSource source(given.kind, given.batch, given.keys, given.seed, given.value_bytes);
  EngineCalls engine_calls(engine, given.kind);
  std::vector<std::vector<Record>> requests(kRequestsAtOnce);
  ProcessCost cost;
  uint64_t calls = 0;
  while (static_cast<double>(cost.processor_ns) < given.seconds * 1e9) {
    for (auto& request : requests) request = source.NextRecords();
    const uint64_t begin = ProcessNs();
    for (const auto& request : requests) {
      if (!engine_calls.Make(request)) return absl::InternalError("a call of the engine failed");
    }
    cost.processor_ns += ProcessNs() - begin;
    calls += requests.size();
  }
  const double seconds = static_cast<double>(cost.processor_ns) / 1e9;
  std::puts(RowOf(given, calls, seconds, cost).dump().c_str());
  return (*store)->Close();
}

// Every key, once, by batches of neighbours.
absl::Status FillServer(const Given& given, const LocalAddress& address) {
  if (given.filled) return absl::OkStatus();
  ServerCalls calls;
  absl::Status status = calls.Connect(address, 1, CallKind::kBatchWrite, 0);
  if (!status.ok()) return status;
  RequestSource source(CallKind::kBatchWrite, kFillBatch, given.keys, given.seed);
  uint64_t next = 0;
  const auto request = [&] { return source.NextFrom(std::exchange(next, next + kFillBatch)); };
  return calls.Run(kFillsInFlight, request, [&] { return next < given.keys; });
}

absl::Status RunFor(const Given& given, double seconds, RequestSource& source, ServerCalls& calls) {
  const uint64_t begin = NowNs();
  const uint64_t end = begin + static_cast<uint64_t>(seconds * 1e9);
  const auto request = [&] { return source.Next(); };
  if (given.rate > 0) return calls.Run(workload::ArrivalSchedule(begin, end, given.rate), request);
  if (given.calls > 0) {
    uint64_t more = std::max<uint64_t>(given.calls, given.in_flight) - given.in_flight;
    return calls.Run(given.in_flight, request, [&] { return more > 0 && more-- > 0; });
  }
  if (given.kind == CallKind::kScanAll) return calls.RunUntil(end, given.in_flight, request);
  return calls.Run(given.in_flight, request, [&] { return NowNs() < end; });
}

// Without a file nothing is counted.
absl::StatusOr<ProcessCounts> CountsOf(const Given& given) {
  if (given.counts.empty()) return ProcessCounts{};
  return ReadCounts(given.counts);
}

absl::Status RunServer(const Given& given) {
  const auto address = ReadLocalAddress(given.server);
  if (!address.ok()) return address.status();
  if (absl::Status status = FillServer(given, *address); !status.ok()) return status;
  const size_t least = given.all_found ? TypicalAnswer(given.kind, given.batch).size() : 0;
  ServerCalls calls;
  absl::Status status = calls.Connect(*address, given.connections, given.kind, least);
  if (!status.ok()) return status;
  RequestSource source(given.kind, given.batch, given.keys, given.seed, given.value_bytes);
  if (given.warm_up_seconds > 0) {
    status = RunFor(given, given.warm_up_seconds, source, calls);
    if (!status.ok()) return status;
    calls.Forget();
  }
  const auto before = CostOf(given.server_pid);
  if (!before.ok()) return before.status();
  const auto counts_before = CountsOf(given);
  if (!counts_before.ok()) return counts_before.status();
  const uint64_t begin = NowNs();
  const uint64_t bytes_before = calls.answer_bytes();
  status = RunFor(given, given.seconds, source, calls);
  if (!status.ok()) return status;
  const double seconds = static_cast<double>(NowNs() - begin) / 1e9;
  const auto counts_after = CountsOf(given);
  if (!counts_after.ok()) return counts_after.status();
  const auto after = CostOf(given.server_pid);
  if (!after.ok()) return after.status();
  auto row = RowOf(given, calls.latencies().total(), seconds, *after - *before);
  AddLatencies(given, calls.latencies(), row);
  if (!given.counts.empty()) {
    AddCounts(calls.latencies().total(), *counts_after - *counts_before, row);
  }
  const auto [least_calls, most_calls] = std::ranges::minmax(calls.calls_by_connection());
  row["least_calls_of_a_connection"] = least_calls;
  row["most_calls_of_a_connection"] = most_calls;
  row["answer_bytes_per_second"] =
      static_cast<double>(calls.answer_bytes() - bytes_before) / seconds;
  std::puts(row.dump().c_str());
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Given given;
  CLI::App app("Processor time of a kind of call in a server, or of its records in process.");
  app.option_defaults()->always_capture_default();
  AddOptions(app, given);
  AddServerOptions(app, given);
  CLI11_PARSE(app, argc, argv);
  const bool batched = given.kind == CallKind::kBatchGet || given.kind == CallKind::kBatchWrite ||
                       given.kind == CallKind::kScan || IsSession(given.kind);
  if (!batched) given.batch = 1;
  if (given.keys < given.batch) {
    std::fputs("call_cost: --keys is at least --batch, whose keys differ\n", stderr);
    return 1;
  }
  const absl::Status status = given.server.empty() ? RunEngine(given) : RunServer(given);
  if (status.ok()) return 0;
  std::fprintf(stderr, "call_cost: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace lodgekv::server_bench

int main(int argc, char** argv) {
  lodgekv::SkipLockOrderCheck();
  try {
    return lodgekv::server_bench::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "call_cost: %s\n", error.what());
    return 1;
  }
}
