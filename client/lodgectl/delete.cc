// lodgectl delete: deletes one key.
#include "absl/strings/str_cat.h"
#include "client/lodgectl/command.h"

namespace lodgekv::lodgectl {
namespace {

constexpr absl::string_view kName = "delete";

struct DeleteArguments {
  std::string key;
  client::WriteCondition condition;
};

void RunDelete(const DeleteArguments& arguments, Context& context) {
  const std::optional<std::string> key = context.Argument(kName, arguments.key);
  if (!key) return;
  absl::StatusOr<bool> found = context.Connect()->Delete(*key, arguments.condition);
  if (!found.ok()) {
    context.exit_code = ReportStatus(kName, context.Explain(found.status()));
  } else if (!*found) {
    PrintError(kName, absl::StrCat("not found: ", Encode(*key, context.encoding())));
    context.exit_code = kExitNotFound;
  }
}

}  // namespace

void AddDelete(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<DeleteArguments>();
  CLI::App* command = app.add_subcommand(std::string(kName), "Delete one key");
  command->add_option("KEY", arguments->key)->required();
  AddIfVersion(*command, arguments->condition);
  command->callback([arguments, &context] { RunDelete(*arguments, context); });
}

}  // namespace lodgekv::lodgectl
