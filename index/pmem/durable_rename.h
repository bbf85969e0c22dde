// Renames that survive a power cut.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace lodgekv::pmem {

// Renames the file `from` to `to`, durably. Unless `replace`, never overwrites: returns
// AlreadyExists if `to` exists.
absl::Status RenameDurably(const std::string& from, const std::string& to, bool replace);

}  // namespace lodgekv::pmem
