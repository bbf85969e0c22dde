// Names that survive a power cut.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace lodgekv::pmem {

// Gives the file `from` the name `to`, durably. Unless `replace`, never over anything:
// AlreadyExists then.
absl::Status RenameDurably(const std::string& from, const std::string& to, bool replace);

}  // namespace lodgekv::pmem
