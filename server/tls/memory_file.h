// A file without a name, in memory alone, for a library that takes a path: its content can be
// replaced, and never touches a disk.
//
// INVARIANT  Who opens the path finds a whole content, the one before or the one after a Replace.
//            Each content has a modification time of its own, so that who reads twice can tell.
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

  // Within this process.
  std::string path() const;

  absl::Status Replace(std::string_view content);

 private:
  explicit MemoryFile(int fd) : fd_(fd) {}

  const int fd_;
  int64_t generation_ = 1;  // of the content; its modification time in seconds
};

}  // namespace lodgekv::server
