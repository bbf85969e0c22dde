// A file without a name, in memory alone, for a library that takes a path: its content can be
// replaced, and never reaches a disk.
//
// INVARIANT  A reader that opens the path finds a complete content, either that before or that
//            after a Replace. Each content has its own modification time, so that a reader can
//            detect a change.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lodgekv::server {

class MemoryFile {
 public:
  static absl::StatusOr<std::unique_ptr<MemoryFile>> Create(std::string_view content);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  // Valid within this process.
  std::string path() const;

  absl::Status Replace(std::string_view content);

 private:
  explicit MemoryFile(int fd) : fd_(fd) {}

  const int fd_;
  int64_t generation_ = 1;  // of the content; its modification time in seconds
};

}  // namespace lodgekv::server
