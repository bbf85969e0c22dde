// What the commands of lodgectl share: the global options, the exit codes, how errors are said.
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
  // An exception that nothing handles: no memory, or a fault of lodgectl.
  kExitOther = 5,
  // And the number of the signal that ended a load.
  kExitSignal = 128,
};

struct Context {
  std::string server{client::kDefaultServer};
  std::string admin{client::kDefaultAdmin};
  std::optional<absl::Duration> timeout;
  std::optional<client::TlsOptions> tls;
  bool hex = false;
  bool json = false;
  // With --cost: what the calls of this command cost.
  std::shared_ptr<CostSum> cost;
  // Of the command that ran.
  int exit_code = kExitOk;

  Encoding encoding() const { return hex ? Encoding::kHex : Encoding::kText; }

  // A single call waits 30 seconds unless --timeout says otherwise, one that may take long for
  // ever.
  std::unique_ptr<client::Client> Connect() const;
  std::unique_ptr<client::Client> ConnectForLong() const;
  std::unique_ptr<client::AdminClient> ConnectAdmin() const;
  std::unique_ptr<client::AdminClient> ConnectAdminForLong() const;

  // The status, with why no connection was made where that is what it says.
  absl::Status Explain(const absl::Status& status) const;
  absl::Status ExplainAdmin(const absl::Status& status) const;

  // A key or value from the command line: as it is, or from hexadecimal with --hex. Reports an
  // error and sets exit_code when it is not hexadecimal.
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

// --if-version, shared by put and delete.
CLI::Option* AddIfVersion(CLI::App& app, client::WriteCondition& condition);

// --format, shared by load and dump.
CLI::Option* AddFormat(CLI::App& app, std::optional<RecordFormat>& format);

// "CODE (REASON): message [detail, ...]": the code of gRPC, and the server's reason, message,
// limits and their values.
std::string DescribeError(const absl::Status& status);

// Writes to stdout. On a terminal what may be taken for a command is escaped; into a file or pipe
// the bytes go as they are. False when that fails.
bool WriteOutput(absl::string_view text);

// Says it on stderr as one line, in which what a terminal may take for a command is escaped.
void PrintError(absl::string_view command, absl::string_view message);

// Says what the server answered and returns the exit code for it.
int ReportStatus(absl::string_view command, const absl::Status& status);

// Writes to stdout what is still buffered; kExitUsage with a message when that fails or has failed.
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

}  // namespace lodgekv::lodgectl
