// lodgectl dump: prints everything, in a form that load reads.
#include <cstdio>

#include "client/lodgectl/command.h"
#include "client/lodgectl/dump_marks.h"

namespace lodgekv::lodgectl {
namespace {

constexpr absl::string_view kName = "dump";

struct DumpArguments {
  std::optional<RecordFormat> format;
  bool bare = false;
};

void RunDump(const DumpArguments& arguments, Context& context) {
  const RecordFormat format = arguments.format.value_or(RecordFormat::kTsv);
  DumpSum sum;
  auto print = [&](const client::ScanItem& item) {
    const Record record{std::string(item.key), std::string(item.value), item.expire_time};
    const std::string line = FormatRecord(record, format, context.encoding());
    sum.Add(line);
    return WriteOutput(line + "\n");
  };
  const bool written = arguments.bare || WriteOutput(DumpHead(format, context.encoding()) + "\n");
  const absl::Status status =
      written ? context.ConnectForLong()->Scan({}, print, nullptr) : absl::OkStatus();
  const bool whole = status.ok() && std::ferror(stdout) == 0;
  if (whole && !arguments.bare) WriteOutput(DumpEnd(format, sum) + "\n");
  context.exit_code = FinishOutput(kName);
  if (!status.ok()) context.exit_code = ReportStatus(kName, context.Explain(status));
}

}  // namespace

void AddDump(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<DumpArguments>();
  CLI::App* dump = app.add_subcommand(std::string(kName), "Print everything, sorted by key");
  AddFormat(*dump, arguments->format);
  dump->add_flag("--bare", arguments->bare,
                 "Only the records, without the header and the end mark by which "
                 "load recognizes a truncated dump");
  dump->footer("TSV holds only keys and values; JSON lines also say when a value expires.");
  dump->callback([arguments, &context] { RunDump(*arguments, context); });
}

}  // namespace lodgekv::lodgectl
