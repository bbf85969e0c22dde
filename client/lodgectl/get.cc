// lodgectl get: reads one key.
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "client/lodgectl/command.h"

namespace lodgekv::lodgectl {
namespace {

constexpr absl::string_view kName = "get";

struct GetArguments {
  std::string key;
  bool with_version = false;
  bool raw = false;
};

void RunGet(const GetArguments& arguments, Context& context) {
  const std::optional<std::string> key = context.Argument(kName, arguments.key);
  if (!key) return;
  absl::StatusOr<client::GetResult> result = context.Connect()->Get(*key);
  if (!result.ok()) {
    context.exit_code = ReportStatus(kName, context.Explain(result.status()));
    return;
  }
  if (!result->found) {
    PrintError(kName, absl::StrCat("not found: ", Encode(*key, context.encoding())));
    context.exit_code = kExitNotFound;
    return;
  }
  const std::string value = context.hex ? ToHex(result->value) : result->value;
  const std::string output =
      absl::StrCat(arguments.with_version ? absl::StrCat(result->version, "\t") : "", value,
                   arguments.raw ? "" : "\n");
  if (arguments.raw) {
    std::fwrite(output.data(), 1, output.size(), stdout);
  } else {
    WriteOutput(output);
  }
  context.exit_code = FinishOutput(kName);
}

}  // namespace

void AddGet(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<GetArguments>();
  CLI::App* get =
      app.add_subcommand(std::string(kName), "Print the value of one key, and a newline");
  get->add_option("KEY", arguments->key)->required();
  get->add_flag("--with-version", arguments->with_version,
                "Print version and tab before the value");
  get->add_flag("--raw", arguments->raw,
                "Print the raw value, also on a terminal, without a newline");
  get->callback([arguments, &context] { RunGet(*arguments, context); });
}

}  // namespace lodgekv::lodgectl
