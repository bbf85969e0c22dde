#include "client/lodgectl/record_reader.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace lodgekv::lodgectl {
namespace {

absl::Status Wrong(absl::string_view what) { return absl::InvalidArgumentError(what); }

bool IsBlank(const std::string& line) { return line.empty() || line == "\r"; }

}  // namespace

RecordReader::RecordReader(LineReader& lines, RecordFormat format, Encoding encoding,
                           bool keys_only)
    : lines_(lines), format_(format), encoding_(encoding), keys_only_(keys_only) {}

absl::StatusOr<std::optional<Record>> RecordReader::Next() {
  for (;;) {
    if (absl::Status status = ReadLine(); !status.ok()) return status;
    if (lines_.done()) {
      if (absl::Status status = CheckEnd(); !status.ok()) return status;
      return std::nullopt;
    }
    absl::StatusOr<std::optional<DumpMark>> mark = ParseDumpMark(line_, format_);
    if (IsCutMark(mark.ok())) return Cut();
    if (!mark.ok()) return mark.status();
    if (*mark) {
      if (absl::Status status = TakeMark(**mark); !status.ok()) return status;
      continue;
    }
    if (absl::Status status = CheckLine(); !status.ok()) return status;
    absl::StatusOr<Record> record = ParseRecord(line_, format_, encoding_);
    if (!record.ok()) return record.status();
    if (sum_) sum_->Add(line_);
    return *std::move(record);
  }
}

// The next line that is not blank. Blank ones are allowed only at the end.
absl::Status RecordReader::ReadLine() {
  blank_ = 0;
  for (;;) {
    if (absl::Status status = lines_.Next(&line_); !status.ok()) return status;
    if (lines_.done()) return absl::OkStatus();
    ++number_;
    bytes_ += line_.size() + 1;
    if (!IsBlank(line_)) break;
    if (blank_ == 0) blank_ = number_;
  }
  if (blank_ == 0) return absl::OkStatus();
  number_ = blank_;
  return Wrong("a blank line between others: the key is empty");
}

absl::Status RecordReader::CheckEnd() const {
  if (!sum_) return absl::OkStatus();
  return Wrong(absl::StrCat("the dump was cut off after this line: its end mark is missing, and ",
                            sum_->records(), " records of it were read"));
}

// Whether the line is the beginning of a mark, of which an end mark may look like a whole one whose
// numbers are wrong. `known`: it does not begin like a mark without being one.
bool RecordReader::IsCutMark(bool known) const {
  if (lines_.ended()) return false;
  if (!known) return true;
  if (!sum_) return false;
  const std::string whole = DumpEnd(format_, *sum_);
  return line_.size() < whole.size() && absl::StartsWith(whole, line_);
}

absl::Status RecordReader::Cut() const {
  return Wrong(absl::StrCat("the dump was cut off inside this line, after ",
                            sum_ ? sum_->records() : 0, " records"));
}

absl::Status RecordReader::TakeMark(const DumpMark& mark) {
  if (!mark.is_end) {
    if (sum_) return Wrong("the header of another dump inside a dump, whose end mark is missing");
    if (mark.hex != (encoding_ == Encoding::kHex)) {
      return Wrong(mark.hex ? "this dump is in hexadecimal: give --hex"
                            : "this dump is not in hexadecimal: leave out --hex");
    }
    sum_.emplace();
    behind_dump_ = false;
    return absl::OkStatus();
  }
  if (!sum_) return Wrong("the end mark of a dump whose header is missing");
  if (mark.records != sum_->records()) {
    return Wrong(absl::StrCat("the dump is incomplete: its end mark counts ", mark.records,
                              " records, and ", sum_->records(), " were read"));
  }
  if (mark.hash != sum_->hash()) {
    return Wrong("the dump was changed: its records do not match the end mark's checksum");
  }
  sum_.reset();
  behind_dump_ = true;
  return absl::OkStatus();
}

absl::Status RecordReader::CheckLine() const {
  if (sum_ && !lines_.ended()) return Cut();
  if (behind_dump_) return Wrong("a line after the end mark of a dump");
  if (absl::Status status = CheckByteOrder(); !status.ok()) return status;
  if (line_[0] == '#') {
    return Wrong(absl::StrCat("a line that begins with # is not a record: there are no comments, ",
                              format_ == RecordFormat::kTsv
                                  ? "and a key that begins with # is written \\x23"
                                  : "and a TSV dump needs --format tsv"));
  }
  if (format_ == RecordFormat::kTsv && encoding_ == Encoding::kText) return CheckTsvLine();
  return absl::OkStatus();
}

// A mark is not skipped: it could be the first bytes of a key as well.
absl::Status RecordReader::CheckByteOrder() const {
  constexpr size_t kBytesInUtf8 = 3;
  const absl::string_view mark = number_ == 1 ? ByteOrderMark(line_) : "";
  if (mark.empty()) return absl::OkStatus();
  const bool of_utf8 = mark.size() == kBytesInUtf8;
  std::string what =
      absl::StrCat("the file begins with a byte order mark",
                   of_utf8 ? ": save it as UTF-8 without one" : " of UTF-16: save it as UTF-8");
  if (format_ == RecordFormat::kTsv && encoding_ == Encoding::kText) {
    absl::StrAppend(&what, "; a key that begins with these bytes is written ", EscapeEach(mark));
  }
  return Wrong(what);
}

absl::Status RecordReader::CheckTsvLine() const {
  if (line_.back() == '\r') {
    return Wrong(
        "the line ends in a carriage return, as those of Windows do: convert the file; a "
        "carriage return inside a value is written \\r");
  }
  if (line_.find('\t') != std::string::npos) return absl::OkStatus();
  if (absl::StartsWith(line_, "{\"")) {
    return Wrong("no tab, and it begins as JSON does: JSON lines need --format json");
  }
  if (!keys_only_ && line_.find_first_of(",;") != std::string::npos) {
    return Wrong(
        "no tab, but a separator of CSV: only TSV can be read; end a key without a value that "
        "has a comma or semicolon with a tab");
  }
  return absl::OkStatus();
}

}  // namespace lodgekv::lodgectl
