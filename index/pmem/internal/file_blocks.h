// Allocates the blocks of a file that will be written through a mapping. A store to a hole needs a
// block, and raises SIGBUS if the disk has none left: the holes are filled before anything is
// stored, or the file is refused.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace lodgekv::pmem {

// Allocates blocks, which read as zeros, for every hole of the regular file at `path`; existing
// data is not touched. ResourceExhausted if there is no room, with the number of missing bytes; the
// holes are then as before. A file that is missing, not writable or locked by another process is
// left to the process that opens it next. `name`: used in messages.
absl::Status FillHoles(const std::string& path, const std::string& name);

// The same for an open file.
absl::Status FillHoles(int fd, const std::string& name);

}  // namespace lodgekv::pmem
