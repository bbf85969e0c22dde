// call_cost: what one kind of call costs a server in processor time, beside what the engine takes
// for the same records in process. call_rounds.py starts the servers.
#include <poll.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "base/lock_order.h"
#include "bench/server_bench/http2_connection.h"
#include "bench/server_bench/loopback.h"
#include "bench/server_bench/process_cost.h"
#include "bench/server_bench/put_recorder.h"
#include "bench/server_bench/request_source.h"
#include "index/store.h"
#include "nlohmann/json.hpp"

namespace lodgekv::server_bench {
namespace {

// Records of a call while the store is filled.
constexpr uint64_t kFillBatch = 100;
// Requests that are made before the engine is timed with them.
constexpr size_t kRequestsAtOnce = 32;
// As the daemon looks keys up.
constexpr size_t kKeysPerLookup = 16;

struct Given {
  CallKind kind = CallKind::kBatchWrite;
  uint64_t batch = 100;
  uint64_t keys = 1'000'000;
  uint64_t seed = 1;
  double seconds = 3;
  std::string server;
  uint64_t server_pid = 0;
  unsigned in_flight = 8;
  unsigned connections = 1;
  bool filled = false;
  StoreOptions store;
};

void AddOptions(CLI::App& app, Given& given) {
  const std::map<std::string, CallKind> kinds = {{"get", CallKind::kGet},
                                                 {"put", CallKind::kPut},
                                                 {"batch_get", CallKind::kBatchGet},
                                                 {"batch_write", CallKind::kBatchWrite}};
  app.add_option("--call", given.kind, "The kind of call")
      ->transform(CLI::CheckedTransformer(kinds));
  app.add_option("--batch", given.batch, "Records of a batch")->check(CLI::Range(1, 100));
  app.add_option("--keys", given.keys, "Keys are drawn from so many, all of which are put first")
      ->check(CLI::Range(1'000, 1'000'000'000));
  app.add_option("--seed", given.seed, "Of the draw");
  app.add_option("--seconds", given.seconds, "That count")->check(CLI::Range(0.01, 600.0));
  auto* server = app.add_option("--server", given.server, "Its address, 127.0.0.1:PORT");
  app.add_option("--server-pid", given.server_pid, "The process whose time counts")->needs(server);
  app.add_option("--in-flight", given.in_flight, "Calls in flight")->check(CLI::Range(1, 4'096));
  app.add_option("--connections", given.connections, "That share the calls in flight")
      ->check(CLI::Range(1, 256));
  app.add_flag("--filled", given.filled, "The server has all keys from an earlier run")
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

// One request to the engine, as the daemon would make it.
class EngineCalls {
 public:
  EngineCalls(Engine& engine, CallKind kind) : engine_(engine), kind_(kind) {}

  bool Make(const std::vector<Record>& records) {
    const bool write = kind_ == CallKind::kPut || kind_ == CallKind::kBatchWrite;
    return write ? Write(records) : Read(records);
  }

 private:
  bool Write(const std::vector<Record>& records) {
    ops_.clear();
    for (const Record& record : records) ops_.push_back({.key = record.key, .value = record.value});
    written_.assign(ops_.size(), {});
    return engine_.Write(ops_, written_, {.atomic = kind_ == CallKind::kBatchWrite}) ==
           Outcome::kOk;
  }

  bool Read(const std::vector<Record>& records) {
    keys_.clear();
    for (const Record& record : records) keys_.push_back(record.key);
    read_.resize(kKeysPerLookup);
    bool ok = true;
    for (size_t begin = 0; begin < keys_.size(); begin += kKeysPerLookup) {
      const auto part =
          std::span(keys_).subspan(begin, std::min(kKeysPerLookup, keys_.size() - begin));
      ok &= engine_.Read(part, std::span(read_).first(part.size()), {}) == Outcome::kOk;
    }
    return ok;
  }

  Engine& engine_;
  const CallKind kind_;
  std::vector<WriteOp> ops_;
  std::vector<WriteResult> written_;
  std::vector<std::string_view> keys_;
  std::vector<ReadResult> read_;
};

void Print(const Given& given, uint64_t calls, double seconds, const ProcessCost& cost) {
  const auto operations = static_cast<double>(calls * given.batch);
  const nlohmann::ordered_json row = {
      {"calls", calls},
      {"operations_per_second", operations / seconds},
      {"processor_ns_per_operation", static_cast<double>(cost.processor_ns) / operations},
      {"processor_us_per_call",
       static_cast<double>(cost.processor_ns) / 1e3 / static_cast<double>(calls)},
      {"sleeps_per_call", static_cast<double>(cost.sleeps) / static_cast<double>(calls)}};
  std::puts(row.dump().c_str());
}

absl::Status RunEngine(Given& given) {
  given.store.allow_volatile_medium = true;
  auto store = Store::Open(given.store);
  if (!store.ok()) return store.status();
  Engine& engine = (*store)->engine();
  if (absl::Status status = PutAll(given, engine); !status.ok()) return status;
  RequestSource source(given.kind, given.batch, given.keys, given.seed);
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
  Print(given, calls, static_cast<double>(cost.processor_ns) / 1e9, cost);
  return (*store)->Close();
}

class ServerCalls {
 public:
  absl::Status Connect(const sockaddr_in& address, unsigned connections, CallKind kind) {
    for (unsigned i = 0; i < connections; ++i) {
      connections_.push_back(std::make_unique<Http2Connection>());
      absl::Status status = connections_.back()->Open(address, RequestSource::PathOf(kind));
      if (!status.ok()) return status;
      polled_.push_back({.fd = connections_.back()->fd(), .events = POLLIN, .revents = 0});
    }
    return absl::OkStatus();
  }

  // Keeps the calls in flight until more() is false, and then awaits all answers; answered(n)
  // learns of each.
  template <class Request, class More, class Answered>
  absl::Status Run(unsigned in_flight, Request request, More more, Answered answered) {
    uint64_t open = 0;
    for (; open < in_flight; ++open) connections_[open % connections_.size()]->Call(request());
    for (auto& connection : connections_) {
      if (absl::Status status = connection->Send(); !status.ok()) return status;
    }
    while (open > 0) {
      poll(polled_.data(), polled_.size(), -1);
      for (size_t i = 0; i < polled_.size(); ++i) {
        if (polled_[i].revents == 0) continue;
        Http2Connection& connection = *connections_[i];
        const auto answers = connection.Receive();
        if (!answers.ok()) return answers.status();
        answered(*answers);
        open -= *answers;
        for (size_t n = 0; n < *answers && more(); ++n, ++open) connection.Call(request());
        if (absl::Status status = connection.Send(); !status.ok()) return status;
      }
    }
    return absl::OkStatus();
  }

 private:
  std::vector<std::unique_ptr<Http2Connection>> connections_;
  std::vector<pollfd> polled_;
};

// Every key, once, by batches of neighbours.
absl::Status FillServer(const Given& given, const sockaddr_in& address) {
  if (given.filled) return absl::OkStatus();
  ServerCalls calls;
  if (absl::Status status = calls.Connect(address, 1, CallKind::kBatchWrite); !status.ok()) {
    return status;
  }
  RequestSource source(CallKind::kBatchWrite, kFillBatch, given.keys, given.seed);
  uint64_t next = 0;
  const auto request = [&] { return source.NextFrom(std::exchange(next, next + kFillBatch)); };
  return calls.Run(4, request, [&] { return next < given.keys; }, [](uint64_t) {});
}

absl::Status RunServer(const Given& given) {
  const auto address = LoopbackAddress(given.server);
  if (!address.ok()) return address.status();
  if (absl::Status status = FillServer(given, *address); !status.ok()) return status;
  ServerCalls calls;
  absl::Status status = calls.Connect(*address, given.connections, given.kind);
  if (!status.ok()) return status;
  RequestSource source(given.kind, given.batch, given.keys, given.seed);
  const auto before = CostOf(given.server_pid);
  if (!before.ok()) return before.status();
  const uint64_t begin = NowNs();
  const uint64_t end = begin + static_cast<uint64_t>(given.seconds * 1e9);
  uint64_t answered = 0;
  status = calls.Run(
      given.in_flight, [&] { return source.Next(); }, [&] { return NowNs() < end; },
      [&](uint64_t answers) { answered += answers; });
  if (!status.ok()) return status;
  const double seconds = static_cast<double>(NowNs() - begin) / 1e9;
  const auto after = CostOf(given.server_pid);
  if (!after.ok()) return after.status();
  Print(given, answered, seconds, *after - *before);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Given given;
  CLI::App app("Processor time of a kind of call in a server, or of its records in process.");
  app.option_defaults()->always_capture_default();
  AddOptions(app, given);
  CLI11_PARSE(app, argc, argv);
  if (given.kind == CallKind::kGet || given.kind == CallKind::kPut) given.batch = 1;
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
