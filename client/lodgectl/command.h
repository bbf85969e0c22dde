// Shared by the commands of lodgectl: the global options, the exit codes, how errors are reported.
//
// INVARIANTS
// - Data goes to stdout, everything else to stderr; an error is one line that begins with
//   "lodgectl: ".
// - A command ends with one of the codes of ExitCode, which --help lists.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/lodgectl/cost_sum.h"
#include "client/lodgectl/text_format.h"
#include "client/lodgekv_client.h"

namespace lodgekv::lodgectl {

enum ExitCode {
  kExitOk = 0,
  kExitNotFound = 1,
  // Also a file that can't be read or written, and a line that can't be parsed.
  kExitUsage = 2,
  kExitConditionFailed = 3,
  // Also a server that can't be reached.
  kExitServerError = 4,
  // An unhandled exception: out of memory, or a bug of lodgectl.
  kExitOther = 5,
  // Plus the number of the signal that ended a load or a bench.
  kExitSignal = 128,
};

struct Context {
  std::string server{client::kDefaultServer};
  std::string admin{client::kDefaultAdmin};
  std::optional<absl::Duration> timeout;
  std::optional<client::TlsOptions> tls;
  bool hex = false;
  bool json = false;
  // With --cost: the cost of this command's calls.
  std::shared_ptr<CostSum> cost;
  // Of the command that ran.
  int exit_code = kExitOk;

  Encoding encoding() const { return hex ? Encoding::kHex : Encoding::kText; }

  // A single call waits 30 seconds unless --timeout is given, one that may take long forever.
  std::unique_ptr<client::Client> Connect() const;
  std::unique_ptr<client::Client> ConnectForLong() const;
  std::unique_ptr<client::AdminClient> ConnectAdmin() const;
  std::unique_ptr<client::AdminClient> ConnectAdminForLong() const;

  // Of a program part that makes channels of its own, each with its own connection.
  client::ClientOptions ChannelOptions() const;

  // The status; if no connection was made, with the reason.
  absl::Status Explain(const absl::Status& status) const;
  absl::Status ExplainAdmin(const absl::Status& status) const;

  // A key or value from the command line: unchanged, or decoded from hexadecimal with --hex. If it
  // is not hexadecimal, reports an error and sets exit_code.
  std::optional<std::string> Argument(absl::string_view name, const std::string& text);
};

// An option that takes a duration such as 30s, 1m30s or 250ms, of at least 1 millisecond.
CLI::Option* AddDuration(CLI::App& app, const std::string& name,
                         std::optional<absl::Duration>& duration, const std::string& doc);

struct CountRange {
  uint64_t least = 0;
  uint64_t most = UINT64_MAX;
};

// An option that takes a whole number.
CLI::Option* AddCount(CLI::App& app, const std::string& name, CountRange range,
                      const std::function<void(uint64_t)>& set, const std::string& doc);

// An option that takes a size in bytes, such as 100 or 4KiB.
CLI::Option* AddSize(CLI::App& app, const std::string& name, CountRange range,
                     std::optional<uint64_t>& size, const std::string& doc);

// --if-version, shared by put and delete.
CLI::Option* AddIfVersion(CLI::App& app, client::WriteCondition& condition);

// --format, shared by load and dump.
CLI::Option* AddFormat(CLI::App& app, std::optional<RecordFormat>& format);

// "CODE (REASON): message [detail, ...]": the code of gRPC, and the server's reason, message,
// limits and their values.
std::string DescribeError(const absl::Status& status);

// Writes to stdout. On a terminal control characters are escaped; files and pipes get the bytes
// unchanged. Returns false on failure.
bool WriteOutput(absl::string_view text);

// Prints it on stderr as one line, with control characters escaped.
void PrintError(absl::string_view command, absl::string_view message);

// Prints the server's answer and returns the exit code for it.
int ReportStatus(absl::string_view command, const absl::Status& status);

// Flushes stdout; returns kExitUsage with a message if that fails or has failed.
int FinishOutput(absl::string_view command);

// Each adds one command; its file has its name.
void AddPut(CLI::App& app, Context& context);
void AddGet(CLI::App& app, Context& context);
void AddDelete(CLI::App& app, Context& context);
void AddScan(CLI::App& app, Context& context);
void AddLoad(CLI::App& app, Context& context);
void AddDump(CLI::App& app, Context& context);
void AddStats(CLI::App& app, Context& context);
void AddStatus(CLI::App& app, Context& context);
void AddEngines(CLI::App& app, Context& context);
void AddCheck(CLI::App& app, Context& context);
void AddBench(CLI::App& app, Context& context);

}  // namespace lodgekv::lodgectl
