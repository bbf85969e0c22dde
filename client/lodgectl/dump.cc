// lodgectl dump: prints everything, in a form that load reads.
#include <cstdio>

#include "client/lodgectl/command.h"

namespace lodgekv::lodgectl {
namespace {

constexpr absl::string_view kName = "dump";

void RunDump(RecordFormat format, Context& context) {
  auto print = [&](const client::ScanItem& item) {
    const Record record{std::string(item.key), std::string(item.value), item.expire_time};
    const std::string line = FormatRecord(record, format, context.encoding()) + "\n";
    return std::fwrite(line.data(), 1, line.size(), stdout) == line.size();
  };
  const absl::Status status = context.ConnectForLong()->Scan({}, print, nullptr);
  context.exit_code = FinishOutput(kName);
  if (!status.ok()) context.exit_code = ReportStatus(kName, context.Explain(status));
}

}  // namespace

void AddDump(CLI::App& app, Context& context) {
  auto format = std::make_shared<std::optional<RecordFormat>>();
  CLI::App* dump = app.add_subcommand(std::string(kName), "Print everything, sorted by key");
  AddFormat(*dump, *format);
  dump->footer("TSV holds keys and values alone; JSON lines also say when a value ends to exist.");
  dump->callback([format, &context] { RunDump(format->value_or(RecordFormat::kTsv), context); });
}

}  // namespace lodgekv::lodgectl
