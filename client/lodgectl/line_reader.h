// Reads a descriptor line by line, until a signal ends it.
//
// INVARIANT  No input makes it run out of memory: the length of a line is limited.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "client/lodgectl/interruption.h"

namespace lodgekv::lodgectl {

class LineReader {
 public:
  // `fd` stays open. Null: signals are not handled.
  LineReader(int fd, const Interruption* interruption, size_t max_line_bytes);

  // The next line without its end; at the end of the input done() is set instead.
  absl::Status Next(std::string* line);
  bool done() const { return done_; }

  // Whether the last line had an end.
  bool ended() const { return ended_; }

 private:
  absl::Status Fill();

  const int fd_;
  const Interruption* const interruption_;
  const size_t max_line_bytes_;
  std::string buffer_;
  size_t begin_ = 0;  // of the unread part of buffer_
  bool at_end_ = false;
  bool done_ = false;
  bool ended_ = false;
};

}  // namespace lodgekv::lodgectl
