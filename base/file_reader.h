// Reads whole files named by a user: configurations, certificates, values.
//
// INVARIANT  No file makes the reader run out of memory, and with kRegular none makes it wait:
// neither a pipe without a writer nor an endless device.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace lodgekv {

enum class FileKind {
  kRegular,  // no pipes and devices; for threads that must not block
  kAny,      // also pipes and devices, which are waited for
};

// Returns the content. The message of an error is to be appended to the file's name: "is a
// directory; ...", "cannot be read: Permission denied".
absl::StatusOr<std::string> ReadWholeFile(const std::string& path, FileKind kind, size_t max_bytes);

// Like kAny, from a descriptor that stays open.
absl::StatusOr<std::string> ReadToEnd(int fd, size_t max_bytes);

}  // namespace lodgekv
