// lodgectl bench: measures a running server.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/units.h"
#include "client/lodgectl/bench/plan.h"
#include "client/lodgectl/bench/records.h"
#include "client/lodgectl/bench/report.h"
#include "client/lodgectl/bench/run.h"
#include "client/lodgectl/command.h"
#include "client/lodgectl/interruption.h"
#include "client/lodgectl/message_output.h"

namespace lodgekv::lodgectl {
namespace {

constexpr absl::string_view kName = "bench";
constexpr CountRange kValueBytes{8, 1 << 20};

class Bench {
 public:
  Bench(BenchPlan plan, const Context& context)
      : plan_(std::move(plan)), context_(context), client_(context.Connect()) {}

  int Run() {
    // What is refused is not cleaned either: in a pool of the other key format that range may be
    // the user's.
    if (const int refused = Look(); refused != kExitOk) return refused;
    int exit_code = plan_.load ? Load() : int{kExitOk};
    if (exit_code == kExitOk && plan_.runs()) exit_code = Measure();
    // Not what an interrupted load has left: it says how to delete it.
    if (plan_.clean && !load_was_cut_) exit_code = std::max(exit_code, Clean());
    return exit_code;
  }

 private:
  int Fail(const absl::Status& status) {
    const bool usage = status.code() == absl::StatusCode::kFailedPrecondition &&
                       client::ErrorOf(status).reason.empty();
    PrintError(kName,
               usage ? std::string(status.message()) : DescribeError(context_.Explain(status)));
    return usage ? kExitUsage : kExitServerError;
  }

  // Whether the plan fits the pool, and its records are there.
  int Look() {
    const absl::StatusOr<bool> found = FindRecords(*client_, plan_);
    if (!found.ok()) return Fail(found.status());
    if (*found || plan_.load || !plan_.runs() || !plan_.reads()) return kExitOk;
    return Fail(absl::FailedPreconditionError(absl::StrCat(
        plan_.name, " reads ", plan_.keys, " keys of ", plan_.key_bytes,
        " bytes that are not there: write them with --load and the same --keys and --key-bytes")));
  }

  int Load() {
    const Interruption interruption;
    const absl::StatusOr<BenchRecordsDone> done = LoadRecords(*client_, plan_, interruption);
    if (!done.ok()) return Fail(done.status());
    absl::FPrintF(stderr, "loaded %d keys\n", done->count);
    load_was_cut_ = done->was_interrupted;
    if (!load_was_cut_) return kExitOk;
    PrintError(kName, "interrupted; lodgectl bench --clean deletes what was loaded");
    return kExitSignal + interruption.signal();
  }

  int Measure() {
    const Interruption interruption;
    const auto result = RunBench(plan_, context_.ChannelOptions(), interruption);
    if (!result.ok()) return Fail(result.status());
    const std::string text = context_.json ? FormatBenchJson(plan_, context_.server, **result)
                                           : FormatBenchTable(plan_, **result);
    if (const int written = PrintOutput(kName, text); written != kExitOk) return written;
    if ((*result)->was_cut) return kExitSignal + interruption.signal();
    const BenchTally& tally = (*result)->tally;
    return tally.errors().empty() && tally.operation_errors().empty() ? kExitOk : kExitServerError;
  }

  int Clean() {
    const Interruption interruption;
    const absl::StatusOr<BenchRecordsDone> done =
        CleanRecords(*context_.ConnectForLong(), plan_, interruption);
    if (!done.ok()) return Fail(done.status());
    absl::FPrintF(stderr, "deleted %d keys\n", done->count);
    return done->was_interrupted ? kExitSignal + interruption.signal() : kExitOk;
  }

  const BenchPlan plan_;
  const Context& context_;
  const std::unique_ptr<client::Client> client_;
  bool load_was_cut_ = false;
};

void RunCommand(const BenchOptions& options, Context& context) {
  absl::StatusOr<BenchPlan> plan = MakePlan(options);
  if (!plan.ok()) {
    PrintError(kName, plan.status().message());
    context.exit_code = kExitUsage;
    return;
  }
  context.exit_code = Bench(*std::move(plan), context).Run();
}

void AddNumber(CLI::App& bench, const std::string& name, CountRange range,
               std::optional<uint64_t>& number, const std::string& doc) {
  AddCount(
      bench, name, range, [&number](uint64_t given) { number = given; }, doc);
}

void AddRecords(CLI::App& bench, BenchOptions& options) {
  AddNumber(bench, "--keys", {1, uint64_t{1} << 40}, options.keys,
            "Keys that are loaded, and read (default: 100000)");
  AddNumber(bench, "--key-bytes", {8, 4'096}, options.key_bytes,
            "Bytes of a key, its prefix included (default: 32)");
  AddSize(bench, "--value-bytes", kValueBytes, options.value_bytes,
          "Bytes of a value, such as 100 or 4KiB (default: 100; ycsb-*: 1000)");
  bench
      .add_option("--distribution", options.distribution,
                  "Which keys: uniform, zipfian (some are popular) or latest (the youngest are); "
                  "default: uniform; ycsb-*: YCSB's")
      ->type_name("NAME");
  AddNumber(bench, "--seed", {}, options.seed, "Of all that is drawn (default: 1)");
  bench.add_flag("--load", options.load, "Write all keys first");
  bench.add_flag("--clean", options.clean, "Delete all keys of bench afterwards");
  bench.add_flag("--fixed64", options.fixed64,
                 "The pool has keys of 8 bytes, and none of yours from fffffffe00000000 to "
                 "fffffffeffffffff (hexadecimal): use that range");
}

void AddPace(CLI::App& bench, BenchOptions& options) {
  AddNumber(bench, "--connections", {1, 10'000}, options.connections,
            "Connections, which share what is in flight (default: 4)");
  AddNumber(bench, "--in-flight", {1, 65'536}, options.in_flight,
            "Calls in flight at a time (default: 16; with --rate at most so many: 1000)");
  AddNumber(bench, "--threads", {1, 1'024}, options.threads,
            "Threads, which share the connections (default: one for every four processors)");
  AddNumber(bench, "--rate", {1, 100'000'000}, options.rate,
            "Calls a second, evenly spaced, whether earlier ones are answered or not; a latency "
            "counts from when its call was due");
  AddNumber(bench, "--batch", {1, 65'536}, options.batch,
            "Operations of a call of batch-get and batch-write, of a message of session; items of "
            "a scan (default: 100)");
  AddDuration(bench, "--duration", options.duration, "How long (default: 10s)");
}

}  // namespace

void AddBench(CLI::App& app, Context& context) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* bench =
      app.add_subcommand(std::string(kName), "Measure the server: throughput, latencies, errors");
  bench
      ->add_option("--workload", options->workload,
                   "get, put, mixed (half of each), batch-get, batch-write, session (messages of "
                   "puts), scan, or ycsb-a to ycsb-f")
      ->type_name("NAME");
  AddRecords(*bench, *options);
  AddPace(*bench, *options);
  bench->footer(R"(Its keys begin with lodgectl-bench/; no other key is read, written or deleted.
  lodgectl bench --load --workload ycsb-a --clean     load, measure, delete
  lodgectl bench --workload get --rate 20000 --json   of keys that were loaded; 20,000 a second
  lodgectl bench --clean                              delete what earlier ones left
Latencies are those of calls that succeeded; calls that were due and never sent count with the
time they waited. A failed call is counted by its code, and does not end the run; the exit code is
4 then.
Ctrl-C ends the run and prints what was measured; the exit code is 130.)");
  bench->callback([options, &context] { RunCommand(*options, context); });
}

}  // namespace lodgekv::lodgectl
