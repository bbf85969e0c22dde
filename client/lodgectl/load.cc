// lodgectl load: writes the records of a file.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "client/lodgectl/command.h"
#include "client/lodgectl/interruption.h"
#include "client/lodgectl/line_reader.h"
#include "client/lodgectl/load_pipeline.h"
#include "client/lodgectl/progress.h"
#include "client/lodgectl/record_reader.h"

namespace lodgekv::lodgectl {
namespace {

constexpr absl::string_view kName = "load";

// Far above the size of the largest value, each of whose bytes may be written as four.
constexpr size_t kMaxLineBytes = 256 << 20;

constexpr CountRange kCallRange{1, 65'536};

struct LoadArguments {
  std::string path;
  std::optional<RecordFormat> format;
  std::string ack_log;
  bool remove = false;
  LoadOptions options;
};

// The list of acknowledged keys. Each call's keys are written to the operating system at once.
class AckLog {
 public:
  ~AckLog() {
    if (file_ != nullptr) std::fclose(file_);
  }

  // An empty path: no list.
  absl::Status Open(const std::string& path) {
    if (path.empty()) return absl::OkStatus();
    file_ = std::fopen(path.c_str(), "ae");
    if (file_ == nullptr) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
    path_ = path;
    return absl::OkStatus();
  }

  absl::Status Append(const std::vector<client::BatchOp>& ops, Encoding encoding) {
    if (file_ == nullptr) return absl::OkStatus();
    std::string lines;
    for (const client::BatchOp& op : ops)
      absl::StrAppend(&lines, EncodeKey(op.key, encoding), "\n");
    const bool written = std::fwrite(lines.data(), 1, lines.size(), file_) == lines.size();
    if (written && std::fflush(file_) == 0) return absl::OkStatus();
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path_));
  }

 private:
  std::string path_;
  std::FILE* file_ = nullptr;
};

class Loader {
 public:
  Loader(const LoadArguments& arguments, const Context& context)
      : arguments_(arguments),
        encoding_(context.encoding()),
        format_(arguments.format.value_or(FormatOfFile(arguments.path))),
        context_(context),
        client_(context.Connect()) {}
  ~Loader() {
    if (fd_ > STDIN_FILENO) close(fd_);
  }
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  int Run() {
    if (absl::Status status = Open(); !status.ok()) return Fail(kExitUsage, status.message());
    LoadPipeline pipeline(*client_, arguments_.options,
                          [this](const std::vector<client::BatchOp>& ops) { Acknowledge(ops); });
    Progress progress(total_bytes_);
    const absl::Status input_status = ReadAll(pipeline, progress);
    // With --atomic nothing is written if the input cannot be read to its end.
    const bool give_up = arguments_.options.atomic && !input_status.ok();
    const bool stopped = give_up || interruption_.signal() != 0;
    return Report(pipeline, input_status, stopped ? pipeline.Wait() : pipeline.Finish());
  }

 private:
  absl::Status Open() {
    if (arguments_.path != "-") {
      fd_ = open(arguments_.path.c_str(), O_RDONLY | O_CLOEXEC);
      struct stat what {};
      if (fd_ < 0 || fstat(fd_, &what) != 0) {
        return absl::NotFoundError(
            absl::StrCat("cannot read ", arguments_.path, ": ", std::strerror(errno)));
      }
      if (S_ISDIR(what.st_mode)) {
        return absl::NotFoundError(
            absl::StrCat("cannot read ", arguments_.path, ": it is a directory"));
      }
      if (S_ISREG(what.st_mode)) total_bytes_ = static_cast<uint64_t>(what.st_size);
      if (absl::EndsWithIgnoreCase(arguments_.path, ".csv")) {
        return absl::InvalidArgumentError(absl::StrCat(
            arguments_.path, " is CSV by its name: only TSV and JSON lines can be read"));
      }
    }
    return ack_log_.Open(arguments_.ack_log);
  }

  void Acknowledge(const std::vector<client::BatchOp>& ops) {
    if (ack_log_status_.ok()) ack_log_status_ = ack_log_.Append(ops, encoding_);
  }

  // Feeds the pipeline; returns the input's error. The pipeline keeps a failure of the server and
  // ends the reading.
  absl::Status ReadAll(LoadPipeline& pipeline, Progress& progress) {
    LineReader lines(fd_, &interruption_, kMaxLineBytes);
    RecordReader records(lines, format_, encoding_, arguments_.remove);
    for (;;) {
      absl::StatusOr<std::optional<Record>> record = records.Next();
      if (interruption_.signal() != 0) return absl::OkStatus();
      if (!record.ok()) {
        return absl::InvalidArgumentError(absl::StrCat(arguments_.path, ":", records.line_number(),
                                                       ": ", record.status().message()));
      }
      if (!*record) return ack_log_status_;
      if (!Add(*std::move(*record), pipeline)) return ack_log_status_;
      progress.Update(records.bytes(), pipeline.acknowledged());
    }
  }

  // False: no more records are taken.
  bool Add(Record record, LoadPipeline& pipeline) {
    client::BatchOp op{std::move(record.key), std::move(record.value), {}};
    if (arguments_.remove) {
      op.value.reset();
      record.expire_time.reset();
    }
    return pipeline.Add(std::move(op), record.expire_time).ok() && ack_log_status_.ok();
  }

  int Report(const LoadPipeline& pipeline, const absl::Status& input, const absl::Status& status) {
    std::string done = absl::StrCat(pipeline.acknowledged(), " records were acknowledged");
    if (pipeline.unknown() > 0) {
      absl::StrAppend(&done, ", ", pipeline.unknown(), " more may or may not have been written");
    } else if (pipeline.acknowledged() == 0) {
      absl::StrAppend(&done, ": nothing was changed");
    }
    if (const int signal = interruption_.signal(); signal != 0 && status.ok()) {
      PrintError(kName, absl::StrCat("interrupted by ", signal == SIGINT ? "SIGINT" : "SIGTERM",
                                     "; ", done));
      return kExitSignal + signal;
    }
    if (!status.ok()) {
      return Fail(kExitServerError,
                  absl::StrCat(DescribeError(context_.Explain(status)), "; ", done));
    }
    if (!input.ok()) return Fail(kExitUsage, absl::StrCat(input.message(), "; ", done));
    if (!ack_log_status_.ok()) {
      return Fail(kExitUsage, absl::StrCat(ack_log_status_.message(), "; ", done));
    }
    const double seconds = absl::ToDoubleSeconds(absl::Now() - start_);
    absl::PrintF("%s %d records in %.1f s (%.0f/s)\n", arguments_.remove ? "deleted" : "loaded",
                 pipeline.acknowledged(), seconds, pipeline.acknowledged() / seconds);
    if (pipeline.expired() > 0)
      absl::PrintF("left out %d records that have expired\n", pipeline.expired());
    return FinishOutput(kName);
  }

  static int Fail(ExitCode code, absl::string_view message) {
    PrintError(kName, message);
    return code;
  }

  const LoadArguments arguments_;
  const Encoding encoding_;
  const RecordFormat format_;
  const absl::Time start_ = absl::Now();
  const Context& context_;
  const std::unique_ptr<client::Client> client_;
  const Interruption interruption_;
  int fd_ = STDIN_FILENO;
  uint64_t total_bytes_ = 0;
  AckLog ack_log_;
  absl::Status ack_log_status_;
};

}  // namespace

void AddLoad(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<LoadArguments>();
  CLI::App* load = app.add_subcommand(std::string(kName), "Write the records of a file");
  load->add_option("FILE", arguments->path, "TSV or JSON lines; -: standard input")->required();
  AddFormat(*load, arguments->format);
  load->add_option(
      "--ack-log", arguments->ack_log,
      "Append each acknowledged key to this file, in the order of the input, as soon as "
      "it is acknowledged");
  LoadOptions& options = arguments->options;
  AddCount(
      *load, "--batch", kCallRange, [&options](uint64_t n) { options.batch = n; },
      "Records a call, each call all or nothing; 1: single Puts, grouped by the server")
      ->default_str(absl::StrCat(options.batch));
  AddCount(
      *load, "--concurrency", kCallRange, [&options](uint64_t n) { options.concurrency = n; },
      "Calls in flight at a time")
      ->default_str(absl::StrCat(options.concurrency));
  load->add_flag("--atomic", arguments->options.atomic,
                 "The whole input in one call, all or nothing; the server's batch limits apply");
  load->add_flag("--delete", arguments->remove,
                 "Delete the keys instead, whether they exist or not; values are ignored");
  load->footer(R"(TSV: key, tab, value, with the escapes of lodgectl --help; no tab: an empty value.
JSON lines: {"key": "k", "value": "v"}, or "key_hex" and "value_hex" in hexadecimal;
"expire_unix_ms" is when the value expires. Without --format, FILE's ending decides: .json, .jsonl
and .ndjson are JSON lines. If a key occurs twice, the later value stays; a record that has expired
is left out, and what its key had stays. A dump that was cut or changed is an error, reported after
its records were loaded. CSV, comments and byte order marks are errors. If the server fails,
lodgectl prints how many records were acknowledged, and how many more may have been written, and
exits with 4; Ctrl-C ends a load in the same way, with 130. Loading again is harmless.)");
  load->callback([arguments, &context] { context.exit_code = Loader(*arguments, context).Run(); });
}

}  // namespace lodgekv::lodgectl
