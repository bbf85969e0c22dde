// The records of an input: lines, with or without the marks of a dump.
//
// INVARIANT  No truncated record of a dump is returned, and its end is reached without an error
// only if all of its records were there unchanged. Anything but a record (CSV, comments, a byte
// order mark, the other format) is an error, not a key.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/lodgectl/dump_marks.h"
#include "client/lodgectl/line_reader.h"
#include "client/lodgectl/text_format.h"

namespace lodgekv::lodgectl {

class RecordReader {
 public:
  // `keys_only`: values are not needed, so a line without one does not indicate another format.
  RecordReader(LineReader& lines, RecordFormat format, Encoding encoding, bool keys_only);

  // The next record; none at the end of the input. Errors refer to the last line read.
  absl::StatusOr<std::optional<Record>> Next();

  uint64_t line_number() const { return number_; }
  uint64_t bytes() const { return bytes_; }

 private:
  absl::Status ReadLine();
  absl::Status CheckEnd() const;
  absl::Status TakeMark(const DumpMark& mark);
  bool IsCutMark(bool known) const;
  absl::Status Cut() const;
  absl::Status CheckLine() const;
  absl::Status CheckByteOrder() const;
  absl::Status CheckTsvLine() const;

  LineReader& lines_;
  const RecordFormat format_;
  const Encoding encoding_;
  const bool keys_only_;
  std::string line_;
  uint64_t number_ = 0;
  uint64_t bytes_ = 0;
  uint64_t blank_ = 0;          // number of the first of the blank lines just read; 0: none
  std::optional<DumpSum> sum_;  // between the marks of a dump
  bool behind_dump_ = false;    // the last nonblank line was an end mark
};

}  // namespace lodgekv::lodgectl
