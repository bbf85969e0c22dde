// The blocks of a file that is about to be written through a mapping. A store to a hole needs a
// block, and where the disk has none left it raises SIGBUS: the holes are filled before anything is
// stored, or the file is refused.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace lodgekv::pmem {

// Gives every hole of the regular file at `path` its blocks, which read as zeros like the hole;
// whatever has data is not touched. ResourceExhausted when there is no room, with the bytes that
// are missing; the holes are then as they were. A file that is not there, that may not be written
// or that another process has locked is left to whoever opens it next. `name`: as in messages.
absl::Status FillHoles(const std::string& path, const std::string& name);

// The same of an open file.
absl::Status FillHoles(int fd, const std::string& name);

}  // namespace lodgekv::pmem
