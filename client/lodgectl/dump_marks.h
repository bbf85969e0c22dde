// The lines around the records of a dump: a head with the format, and an end mark with the number
// of records and a checksum. They reveal a dump that was truncated or changed.
//
//   #lodgekv-dump version=1 encoding=text
//   #lodgekv-dump-end records=3 xxh3=0123456789abcdef
//
//   {"lodgekv_dump":{"version":1,"encoding":"text"}}
//   {"lodgekv_dump_end":{"records":3,"xxh3":"0123456789abcdef"}}
//
// INVARIANT  No line of a record is mistaken for a mark: in TSV it does not begin with "#", in JSON
// it has no such field.
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/lodgectl/text_format.h"

namespace lodgekv::lodgectl {

// Sums up the lines of records: how many, and a hash of their bytes with the newlines.
class DumpSum {
 public:
  DumpSum();

  void Add(absl::string_view line);  // without its newline

  uint64_t records() const { return records_; }
  uint64_t hash() const;

 private:
  struct FreeState {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };

  uint64_t records_ = 0;
  std::unique_ptr<XXH3_state_t, FreeState> state_;
};

// The marks as lines, without a newline.
std::string DumpHead(RecordFormat format, Encoding encoding);
std::string DumpEnd(RecordFormat format, const DumpSum& sum);

struct DumpMark {
  bool is_end = false;
  bool hex = false;      // of a head
  uint64_t records = 0;  // of an end
  uint64_t hash = 0;     // likewise
};

// None: another line. An error: it begins like a mark but is not a known one.
absl::StatusOr<std::optional<DumpMark>> ParseDumpMark(absl::string_view line, RecordFormat format);

}  // namespace lodgekv::lodgectl
