// lodgectl stats: numbers of the server.
#include <array>
#include <charconv>

#include "absl/strings/str_cat.h"
#include "client/lodgectl/command.h"
#include "client/lodgectl/message_output.h"

namespace lodgekv::lodgectl {
namespace {

constexpr absl::string_view kName = "stats";

// Integers without decimals, others with the shortest digits that identify them.
std::string FormatNumber(double number) {
  std::array<char, 400> text;  // the longest double has 309 digits before the point
  const auto [end, error] =
      std::to_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  return {text.data(), end};
}

std::string FormatStats(v1::StatsResponse stats) {
  std::string counters;
  for (const v1::Counter& counter : stats.engine_counters()) {
    absl::StrAppend(&counters, FormatField(absl::StrCat("engine.", counter.name()),
                                           FormatNumber(counter.value())));
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
