// lodgectl put: writes one key.
#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "base/file_reader.h"
#include "client/lodgectl/command.h"

namespace lodgekv::lodgectl {
namespace {

constexpr absl::string_view kName = "put";

// No server accepts more: far above the largest configurable value size.
constexpr size_t kMaxValueBytes = 64 << 20;

struct PutArguments {
  std::string key;
  std::optional<std::string> value;
  std::string value_file;
  client::PutOptions options;
};

// The bytes to write: the argument, or the unchanged content of the file.
std::optional<std::string> ReadValue(const PutArguments& arguments, Context& context) {
  if (arguments.value) return context.Argument(kName, *arguments.value);
  const std::string& path = arguments.value_file;
  absl::StatusOr<std::string> content = path == "-"
                                            ? ReadToEnd(STDIN_FILENO, kMaxValueBytes)
                                            : ReadWholeFile(path, FileKind::kAny, kMaxValueBytes);
  if (content.ok()) return *std::move(content);
  PrintError(kName,
             absl::StrCat(path == "-" ? "standard input" : path, " ", content.status().message()));
  context.exit_code = kExitUsage;
  return std::nullopt;
}

void RunPut(const PutArguments& arguments, Context& context) {
  const std::optional<std::string> key = context.Argument(kName, arguments.key);
  if (!key) return;
  const std::optional<std::string> value = ReadValue(arguments, context);
  if (!value) return;
  absl::StatusOr<uint64_t> version = context.Connect()->Put(*key, *value, arguments.options);
  if (!version.ok()) {
    context.exit_code = ReportStatus(kName, context.Explain(version.status()));
    return;
  }
  // A pool without versions answers 0.
  const std::string line = *version == 0 ? "ok\n" : absl::StrCat("ok, version ", *version, "\n");
  std::fputs(line.c_str(), stdout);
  context.exit_code = FinishOutput(kName);
}

}  // namespace

void AddPut(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<PutArguments>();
  CLI::App* put = app.add_subcommand(std::string(kName), "Write one key; prints its version");
  put->add_option("KEY", arguments->key)->required();
  CLI::Option* value = put->add_option("VALUE", arguments->value);
  CLI::Option* file = put->add_option("--value-file", arguments->value_file,
                                      "Read the value from a file, unchanged (-: standard input)");
  client::WriteCondition& condition = arguments->options.condition;
  CLI::Option* absent =
      put->add_flag("--if-absent", condition.if_absent, "Only if the key has no value");
  CLI::Option* present =
      put->add_flag("--if-present", condition.if_present, "Only if the key has a value");
  CLI::Option* version = AddIfVersion(*put, condition);
  AddDuration(*put, "--ttl", arguments->options.ttl, "The value expires after this time");
  value->excludes(file);
  absent->excludes(present)->excludes(version);
  present->excludes(version);
  put->callback([arguments, file, &context] {
    if (!arguments->value && file->count() == 0) {
      throw CLI::RequiredError("put: VALUE or --value-file");
    }
    RunPut(*arguments, context);
  });
}

}  // namespace lodgekv::lodgectl
