// lodgectl check: makes the server read the whole structure and report problems.
#include "absl/strings/str_cat.h"
#include "client/lodgectl/command.h"
#include "client/lodgectl/message_output.h"

namespace lodgekv::lodgectl {
namespace {

constexpr absl::string_view kName = "check";

void RunCheck(Context& context) {
  absl::StatusOr<v1::CheckResponse> check = context.ConnectAdminForLong()->Check();
  if (!check.ok()) {
    context.exit_code = ReportStatus(kName, context.ExplainAdmin(check.status()));
    return;
  }
  context.exit_code = PrintOutput(kName, context.json ? FormatJson(*check) : FormatFields(*check));
  if (check->sound()) return;
  PrintError(kName, absl::StrCat("not sound: ", check->problem_count(), " problems"));
  context.exit_code = kExitServerError;
}

}  // namespace

void AddCheck(CLI::App& app, Context& context) {
  CLI::App* check = app.add_subcommand(
      std::string(kName), "Check the whole structure while others write; nothing is changed");
  check->footer("Exits with 4 when the structure is not sound.");
  check->callback([&context] { RunCheck(context); });
}

}  // namespace lodgekv::lodgectl
