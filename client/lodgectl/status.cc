// lodgectl status: identity and state of the server.
#include "client/lodgectl/command.h"
#include "client/lodgectl/message_output.h"

namespace lodgekv::lodgectl {
namespace {

constexpr absl::string_view kName = "status";

void RunStatus(Context& context) {
  absl::StatusOr<v1::StatusResponse> status = context.ConnectAdmin()->Status();
  if (!status.ok()) {
    context.exit_code = ReportStatus(kName, context.ExplainAdmin(status.status()));
    return;
  }
  context.exit_code =
      PrintOutput(kName, context.json ? FormatJson(*status) : FormatFields(*status));
}

}  // namespace

void AddStatus(CLI::App& app, Context& context) {
  CLI::App* status = app.add_subcommand(
      std::string(kName),
      "Print version, state, engine, pool, medium, durability, journal, recovery");
  status->callback([&context] { RunStatus(context); });
}

}  // namespace lodgekv::lodgectl
