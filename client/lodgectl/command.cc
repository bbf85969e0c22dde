#include "client/lodgectl/command.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/units.h"
#include "client/connection_probe.h"

namespace lodgekv::lodgectl {
namespace {

client::ClientOptions Options(const Context& context, absl::Duration default_timeout) {
  client::ClientOptions options{.server = context.server,
                                .admin = context.admin,
                                .timeout = context.timeout.value_or(default_timeout),
                                .tls = context.tls,
                                .own_connection = false,
                                .on_cost = {}};
  if (context.cost != nullptr) {
    options.on_cost = [sum = context.cost](const v1::Cost& cost) { sum->Add(cost); };
  }
  return options;
}

constexpr absl::Duration kCallTimeout = absl::Seconds(30);

// A gRPC server that does not know the call gives no reason.
absl::Status ExplainUnknownCall(const std::string& address, absl::string_view service,
                                absl::string_view advice) {
  return absl::UnimplementedError(
      absl::StrCat("what answers at ", address, " does not serve ", service, ": ", advice));
}

bool IsUnknownCall(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnimplemented &&
         client::ErrorOf(status).reason.empty();
}

absl::Status ExplainAt(const std::string& address, const Context& context,
                       const absl::Status& status) {
  const bool no_answer = status.code() == absl::StatusCode::kUnavailable ||
                         status.code() == absl::StatusCode::kDeadlineExceeded;
  if (!no_answer || !client::ErrorOf(status).reason.empty()) return status;
  const std::string why = client::ExplainConnection(address, context.tls);
  if (why.empty()) return status;
  return {status.code(), absl::StrCat(why, " (", status.message(), ")")};
}

}  // namespace

std::unique_ptr<client::Client> Context::Connect() const {
  return client::Client::Create(Options(*this, kCallTimeout));
}

std::unique_ptr<client::Client> Context::ConnectForLong() const {
  return client::Client::Create(Options(*this, absl::InfiniteDuration()));
}

std::unique_ptr<client::AdminClient> Context::ConnectAdmin() const {
  return client::AdminClient::Create(Options(*this, kCallTimeout));
}

std::unique_ptr<client::AdminClient> Context::ConnectAdminForLong() const {
  return client::AdminClient::Create(Options(*this, absl::InfiniteDuration()));
}

client::ClientOptions Context::ChannelOptions() const {
  client::ClientOptions options = Options(*this, kCallTimeout);
  options.own_connection = true;
  return options;
}

absl::Status Context::Explain(const absl::Status& status) const {
  if (IsUnknownCall(status)) {
    return ExplainUnknownCall(server, "KvService",
                              "the data's address goes to --server, the operator's to --admin");
  }
  return ExplainAt(server, *this, status);
}

absl::Status Context::ExplainAdmin(const absl::Status& status) const {
  if (IsUnknownCall(status)) {
    return ExplainUnknownCall(admin, "AdminService",
                              "the operator's address goes to --admin, the data's to --server");
  }
  return ExplainAt(admin, *this, status);
}

std::optional<std::string> Context::Argument(absl::string_view name, const std::string& text) {
  if (!hex) return text;
  absl::StatusOr<std::string> bytes = FromHex(text);
  if (bytes.ok()) return *std::move(bytes);
  PrintError(name, bytes.status().message());
  exit_code = kExitUsage;
  return std::nullopt;
}

CLI::Option* AddDuration(CLI::App& app, const std::string& name,
                         std::optional<absl::Duration>& duration, const std::string& doc) {
  auto parse = [name, &duration](const std::string& text) {
    const std::optional<uint64_t> milliseconds = ParseDuration(text);
    if (!milliseconds || *milliseconds == 0 || *milliseconds > INT64_MAX) {
      throw CLI::ValidationError(name, absl::StrCat("'", text,
                                                    "' is not a duration of 1ms or more, such as "
                                                    "30s, 1m30s or 250ms"));
    }
    duration = absl::Milliseconds(static_cast<int64_t>(*milliseconds));
  };
  return app.add_option_function<std::string>(name, parse, doc)->type_name("DURATION");
}

CLI::Option* AddCount(CLI::App& app, const std::string& name, CountRange range,
                      const std::function<void(uint64_t)>& set, const std::string& doc) {
  const auto parse = [name, range, set](const std::string& text) {
    const std::optional<uint64_t> count = ParseCount(text);
    if (!count || *count < range.least || *count > range.most) {
      throw CLI::ValidationError(
          name, range.most == UINT64_MAX ? absl::StrCat("'", text, "' is not a whole number of ",
                                                        range.least, " or more")
                                         : absl::StrCat("'", text, "' is not a whole number from ",
                                                        range.least, " to ", range.most));
    }
    set(*count);
  };
  return app.add_option_function<std::string>(name, parse, doc)->type_name("N");
}

CLI::Option* AddSize(CLI::App& app, const std::string& name, CountRange range,
                     std::optional<uint64_t>& size, const std::string& doc) {
  const auto parse = [name, range, &size](const std::string& text) {
    size = ParseSize(text);
    if (size && *size >= range.least && *size <= range.most) return;
    throw CLI::ValidationError(
        name, absl::StrCat("'", text, "' is not a size from ", FormatSize(range.least), " to ",
                           FormatSize(range.most), ", such as 100 or 4KiB"));
  };
  return app.add_option_function<std::string>(name, parse, doc)->type_name("SIZE");
}

CLI::Option* AddIfVersion(CLI::App& app, client::WriteCondition& condition) {
  const auto set = [&condition](uint64_t version) { condition.if_version = version; };
  return AddCount(app, "--if-version", {1, UINT64_MAX}, set, "Only if the value has this version")
      ->type_name("VERSION");
}

CLI::Option* AddFormat(CLI::App& app, std::optional<RecordFormat>& format) {
  static const std::map<std::string, RecordFormat> kFormats{{"tsv", RecordFormat::kTsv},
                                                            {"json", RecordFormat::kJsonLines}};
  return app.add_option("--format", format, "tsv: key, tab, value. json: an object a line")
      ->transform(CLI::CheckedTransformer(kFormats))
      ->type_name("tsv|json")
      ->option_text("tsv|json");
}

std::string DescribeError(const absl::Status& status) {
  const client::ErrorInfo error = client::ErrorOf(status);
  std::string text = absl::StatusCodeToString(status.code());
  if (!error.reason.empty()) absl::StrAppend(&text, " (", error.reason, ")");
  absl::StrAppend(&text, ": ", status.message());
  std::vector<std::string> details;
  for (const auto& [subject, description] : error.violations) {
    // The message often contains the same information.
    if (description == status.message()) details.push_back(subject);
    if (description != status.message())
      details.push_back(absl::StrCat(subject, ": ", description));
  }
  for (const auto& [name, value] : error.metadata) {
    details.push_back(absl::StrCat(name, "=", value));
  }
  if (error.retry_after) {
    details.push_back(absl::StrCat("retry after ", absl::FormatDuration(*error.retry_after)));
  }
  if (!details.empty()) absl::StrAppend(&text, " [", absl::StrJoin(details, "; "), "]");
  return text;
}

bool WriteOutput(absl::string_view text) {
  static const bool kTerminal = isatty(STDOUT_FILENO) == 1;
  if (!kTerminal) return std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  const std::string escaped = EscapeForTerminal(text);
  return std::fwrite(escaped.data(), 1, escaped.size(), stdout) == escaped.size();
}

void PrintError(absl::string_view command, absl::string_view message) {
  const std::string text = EscapeForTerminal(absl::StrReplaceAll(message, {{"\n", " "}}));
  const std::string line = absl::StrCat("lodgectl: ", command, ": ", text, "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
}

int ReportStatus(absl::string_view command, const absl::Status& status) {
  if (status.ok()) return kExitOk;
  PrintError(command, DescribeError(status));
  const bool condition = client::ErrorOf(status).reason == "CONDITION_FAILED";
  return condition ? kExitConditionFailed : kExitServerError;
}

int FinishOutput(absl::string_view command) {
  const bool failed = std::fflush(stdout) != 0;
  if (!failed && std::ferror(stdout) == 0) return kExitOk;
  PrintError(command, absl::StrCat("cannot write the output: ", std::strerror(errno)));
  return kExitUsage;
}

}  // namespace lodgekv::lodgectl
