// Reads whole files that somebody else names: configurations, certificates, values.
//
// INVARIANT  No file makes the reader run out of memory, and with kRegular none makes it wait:
//            neither a pipe that nobody writes to nor a device that never ends.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace lodgekv {

enum class FileKind {
  kRegular,  // nothing that others fill; for who must go on meanwhile
  kAny,      // also pipes and devices, which are waited for
};

// The content. The message of an error goes behind the name of the file: "is a directory; ...",
// "cannot be read: Permission denied".
absl::StatusOr<std::string> ReadWholeFile(const std::string& path, FileKind kind, size_t max_bytes);

// As kAny, from a descriptor that stays open.
absl::StatusOr<std::string> ReadToEnd(int fd, size_t max_bytes);

}  // namespace lodgekv
