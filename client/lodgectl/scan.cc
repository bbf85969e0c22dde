// lodgectl scan: prints the keys of a range.
#include <cstdio>

#include "client/lodgectl/command.h"

namespace lodgekv::lodgectl {
namespace {

constexpr absl::string_view kName = "scan";

void RunScan(client::ScanOptions options, Context& context) {
  for (std::string* bound : {&options.start, &options.end, &options.prefix}) {
    std::optional<std::string> bytes = context.Argument(kName, *bound);
    if (!bytes) return;
    *bound = *std::move(bytes);
  }
  auto print = [&](const client::ScanItem& item) {
    std::string line = EncodeKey(std::string(item.key), context.encoding());
    if (!options.keys_only) line += "\t" + Encode(std::string(item.value), context.encoding());
    line += "\n";
    return WriteOutput(line);
  };
  const absl::Status status = context.ConnectForLong()->Scan(options, print, nullptr);
  context.exit_code = FinishOutput(kName);
  if (!status.ok()) context.exit_code = ReportStatus(kName, context.Explain(status));
}

}  // namespace

void AddScan(CLI::App& app, Context& context) {
  auto options = std::make_shared<client::ScanOptions>();
  CLI::App* scan = app.add_subcommand(std::string(kName),
                                      "Print the keys of a range, in order: key, tab, value");
  scan->add_option("--start", options->start, "First key, inclusive");
  scan->add_option("--end", options->end, "Last key, exclusive");
  scan->add_option("--prefix", options->prefix, "Only keys with this prefix");
  AddCount(
      *scan, "--limit", {}, [options](uint64_t limit) { options->limit = limit; },
      "At most this many; 0: all");
  scan->add_flag("--reverse", options->reverse, "In descending order");
  scan->add_flag("--keys-only", options->keys_only, "Print only the keys");
  scan->callback([options, &context] { RunScan(*options, context); });
}

}  // namespace lodgekv::lodgectl
