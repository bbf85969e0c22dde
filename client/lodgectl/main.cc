// lodgectl: the command line of LodgeKV. One file per command; this one puts them together.
#include <grpc/support/log.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/file_reader.h"
#include "base/lock_order.h"
#include "base/version.h"
#include "client/lodgectl/address.h"
#include "client/lodgectl/command.h"

namespace lodgekv::lodgectl {
namespace {

constexpr absl::string_view kFooter = R"(
Exit codes:
  0  done
  1  the key was not found (get, delete)
  2  usage: wrong arguments, a file that can't be read or written, a line that can't be parsed
  3  the condition of a write did not hold
  4  the server reported an error or could not be reached
  5  another error: no memory, or a fault of lodgectl itself
  130, 143  a load or a bench ended by SIGINT (Ctrl-C) or SIGTERM; it has printed what was done

Text: keys and values on the command line are taken as they are. In the lines of scan, dump and
load, \\, \t, \n, \r and \xNN (two hexadecimal digits) stand for a backslash, a tab, a newline, a
carriage return and any byte; all other bytes stand for themselves, on a terminal only if they are
printable UTF-8. A leading # of a key is written \x23, a leading byte order mark \xef\xbb\xbf. With
--hex, keys and values are hexadecimal everywhere. A key that begins with a dash goes after "--".)";

constexpr size_t kMaxPemBytes = 1 << 20;

// The content of a file that an option names.
std::string ReadPem(const std::string& option, const std::string& path) {
  absl::StatusOr<std::string> content = ReadWholeFile(path, FileKind::kAny, kMaxPemBytes);
  if (content.ok()) return *std::move(content);
  throw CLI::ValidationError(option, absl::StrCat(path, " ", content.status().message()));
}

CLI::Option* AddPem(CLI::App& app, const std::string& name, const std::string& variable,
                    Context& context, std::string client::TlsOptions::*member,
                    const std::string& doc) {
  const auto read = [name, member, &context](const std::string& path) {
    if (!context.tls) context.tls.emplace();
    *context.tls.*member = ReadPem(name, path);
  };
  return app.add_option_function<std::string>(name, read, doc)
      ->envname(variable)
      ->type_name("FILE");
}

void AddTls(CLI::App& app, Context& context) {
  CLI::Option* ca = AddPem(app, "--tls-ca", "LODGEKV_TLS_CA", context, &client::TlsOptions::ca_pem,
                           "Speak TLS; the certificate of the CA that issued the server's (PEM)");
  CLI::Option* cert =
      AddPem(app, "--tls-cert", "LODGEKV_TLS_CERT", context, &client::TlsOptions::cert_pem,
             "The client's own certificate, if the server asks for one (PEM)");
  CLI::Option* key = AddPem(app, "--tls-key", "LODGEKV_TLS_KEY", context,
                            &client::TlsOptions::key_pem, "Its private key (PEM, unencrypted)");
  CLI::Option* name =
      app.add_option_function<std::string>(
             "--tls-server-name",
             [&context](const std::string& text) {
               if (!context.tls) context.tls.emplace();
               context.tls->server_name = text;
             },
             "The name to expect in the server's certificate (default: the host of the address)")
          ->envname("LODGEKV_TLS_SERVER_NAME")
          ->type_name("NAME");
  cert->needs(key)->needs(ca);
  key->needs(cert);
  name->needs(ca);
}

// Hides gRPC's own log lines, which repeat our messages; GRPC_VERBOSITY enables them.
void QuietGrpc() {
  if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function([](gpr_log_func_args*) {});
}

void AddAddress(CLI::App& app, const std::string& name, const std::string& variable,
                std::string& address, std::string_view usual, const std::string& doc) {
  const auto read = [usual](const std::string& given) {
    if (!HasImpossiblePort(given)) return WithPort(given, usual);
    throw CLI::ValidationError(
        absl::StrCat("'", given, "' has no possible port: the highest is 65535"));
  };
  app.add_option(name, address, doc)->transform(read)->envname(variable)->capture_default_str();
}

void AddGlobals(CLI::App& app, Context& context) {
  AddAddress(app, "--server", "LODGEKV_SERVER", context.server, client::kDefaultServer,
             "Address of the data service: host:port, host or unix:/path");
  AddAddress(app, "--admin", "LODGEKV_ADMIN", context.admin, client::kDefaultAdmin,
             "Address of the operator's service (stats, status, engines, check)");
  AddDuration(
      app, "--timeout", context.timeout,
      "Longest wait for an answer, such as 5s (default: 30s; none for scan, dump, stats and "
      "check)");
  AddTls(app, context);
  app.add_flag_callback(
      "--cost", [&context] { context.cost = std::make_shared<CostSum>(); },
      "put, get, delete, scan, dump and load: say on standard error what it cost the medium");
  app.add_flag("--hex", context.hex,
               "Keys and values in hexadecimal, in arguments, files and output");
  app.add_flag("--json", context.json,
               "stats, status, engines and check: JSON as proto3 defines it; bench: a JSON object");
}

// They take --json, and neither --cost nor --hex.
constexpr std::array<absl::string_view, 5> kReports{"stats", "status", "engines", "check", "bench"};

// Rejects options that the command does not use.
void RefuseUseless(const CLI::App& app) {
  const CLI::App& command = *app.get_subcommands().front();
  const bool reports =
      std::find(kReports.begin(), kReports.end(), command.get_name()) != kReports.end();
  for (const std::string name : {"--json", "--cost", "--hex"}) {
    if (app.get_option(name)->count() == 0 || (name == "--json") == reports) continue;
    const bool dump = command.get_name() == "dump" || command.get_name() == "load";
    throw CLI::ValidationError(
        name, absl::StrCat(command.get_name(), " does not take it",
                           name == "--json" && dump ? "; it has --format json" : ""));
  }
}

// The help of a command lists the global options, too.
void AddGlobalHelp(const CLI::App& app, CLI::App& command) {
  const std::string own = command.get_footer();
  command.footer("");
  command.footer([own, &app] {
    const CLI::Formatter formatter;
    const std::string groups = formatter.make_groups(&app, CLI::AppFormatMode::Sub);
    return absl::StrCat(
        own, own.empty() ? "" : "\n", "\nGlobal ",
        absl::StrReplaceAll(absl::StripAsciiWhitespace(groups), {{"Options:", "options:"}}));
  });
}

// CLI11 reports an unknown word as a missing command before it reports it as wrong.
std::string DescribeUsage(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> unknown = app.remaining();
  if (app.get_subcommands().empty() && !unknown.empty()) {
    return absl::StrCat("unknown command '", unknown.front(), "'");
  }
  return error.what();
}

int Run(int argc, char** argv) {
  CLI::App app("Talks to a LodgeKV server.", "lodgectl");
  Context context;
  AddGlobals(app, context);
  app.set_version_flag("--version", "lodgectl " + DescribeBuild());
  app.footer(std::string(kFooter.substr(1)));
  for (auto* add : {AddPut, AddGet, AddDelete, AddScan, AddLoad, AddDump, AddStats, AddStatus,
                    AddEngines, AddCheck, AddBench}) {
    add(app, context);
  }
  for (CLI::App* command : app.get_subcommands({})) {
    command->fallthrough();
    AddGlobalHelp(app, *command);
  }
  app.require_subcommand(1);
  app.parse_complete_callback([&app] { RefuseUseless(app); });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    PrintError("usage", absl::StrCat(DescribeUsage(app, error), "; see lodgectl --help"));
    return kExitUsage;
  }
  if (context.cost != nullptr) std::cerr << context.cost->Describe() << "\n";
  return context.exit_code;
}

// An unexpected exception.
int Fail(const std::exception& error) {
  PrintError("error", error.what());
  return kExitOther;
}

}  // namespace
}  // namespace lodgekv::lodgectl

// Ends without the destructors of static objects: a gRPC thread that has delivered the last answer
// may still be releasing its call, and would use gRPC's destroyed statics.
int main(int argc, char** argv) {
  lodgekv::SkipLockOrderCheck();
  lodgekv::lodgectl::QuietGrpc();
  int exit_code = lodgekv::lodgectl::kExitOther;
  try {
    exit_code = lodgekv::lodgectl::Run(argc, argv);
  } catch (const std::exception& error) {
    exit_code = lodgekv::lodgectl::Fail(error);
  }
  std::cout.flush();
  std::fflush(nullptr);
  std::_Exit(exit_code);
}
