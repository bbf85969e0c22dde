// lodgectl stats: numbers of the server.
#include "absl/strings/str_cat.h"
#include "client/lodgectl/command.h"
#include "client/lodgectl/message_output.h"

namespace lodgekv::lodgectl {
namespace {

constexpr absl::string_view kName = "stats";

std::string FormatStats(v1::StatsResponse stats) {
  std::string counters;
  for (const v1::Counter& counter : stats.engine_counters()) {
    absl::StrAppend(&counters, FormatField(absl::StrCat("engine.", counter.name()),
                                           absl::StrCat(counter.value())));
  }
  stats.clear_engine_counters();
  return FormatFields(stats) + counters;
}

void RunStats(bool skip_key_count, Context& context) {
  absl::StatusOr<v1::StatsResponse> stats = context.ConnectAdminForLong()->Stats(skip_key_count);
  if (!stats.ok()) {
    context.exit_code = ReportStatus(kName, context.ExplainAdmin(stats.status()));
    return;
  }
  context.exit_code =
      PrintOutput(kName, context.json ? FormatJson(*stats) : FormatStats(*std::move(stats)));
}

}  // namespace

void AddStats(CLI::App& app, Context& context) {
  auto skip_key_count = std::make_shared<bool>(false);
  CLI::App* stats = app.add_subcommand(
      std::string(kName), "Print the number of keys, space, memory, media cost, engine counters");
  stats->add_flag("--skip-key-count", *skip_key_count,
                  "Do not count the keys (a walk, milliseconds per million keys)");
  stats->callback([skip_key_count, &context] { RunStats(*skip_key_count, context); });
}

}  // namespace lodgekv::lodgectl
