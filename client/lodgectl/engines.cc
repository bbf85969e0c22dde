// lodgectl engines: the engines of the server's build and their options.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/lodgectl/command.h"
#include "client/lodgectl/message_output.h"

namespace lodgekv::lodgectl {
namespace {

constexpr absl::string_view kName = "engines";

std::string FormatEngine(const v1::EngineDescription& engine) {
  std::string text = absl::StrCat(engine.name(), engine.serving() ? " (serving)" : "", "\n  ",
                                  engine.summary(), "\n");
  if (!engine.paper().empty()) absl::StrAppend(&text, "  paper: ", engine.paper(), "\n");
  if (engine.persistent()) {
    absl::StrAppend(&text, "  persistent, media version ", engine.media_version(), "\n");
  } else {
    absl::StrAppend(
        &text, engine.discards() ? "  stores nothing\n" : "  volatile: loses its data at exit\n");
  }
  for (const v1::EngineOption& option : engine.options()) {
    absl::StrAppendFormat(&text, "  %-24s %d (%d to %d): %s\n", option.name(),
                          option.default_value(), option.min_value(), option.max_value(),
                          option.doc());
  }
  return text;
}

void RunEngines(Context& context) {
  absl::StatusOr<v1::EnginesResponse> engines = context.ConnectAdmin()->Engines();
  if (!engines.ok()) {
    context.exit_code = ReportStatus(kName, context.ExplainAdmin(engines.status()));
    return;
  }
  std::string text;
  for (const v1::EngineDescription& engine : engines->engines()) text += FormatEngine(engine);
  context.exit_code = PrintOutput(kName, context.json ? FormatJson(*engines) : text);
}

}  // namespace

void AddEngines(CLI::App& app, Context& context) {
  CLI::App* engines = app.add_subcommand(
      std::string(kName), "Print the engines of the server's build and their options");
  engines->callback([&context] { RunEngines(context); });
}

}  // namespace lodgekv::lodgectl
