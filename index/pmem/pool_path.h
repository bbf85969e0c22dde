// What lies at the path of a pool: a file, a poolset file that names several, or a device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lodgekv::pmem {

struct PoolPath {
  enum class Kind : uint8_t { kMissing, kFile, kPoolset, kDevdax };
  struct Part {
    std::string path;
    Kind kind = Kind::kMissing;  // not kPoolset
    uint64_t bytes = 0;          // there now; 0 when missing
    uint64_t wanted_bytes = 0;   // of a poolset's line; 0: the whole device
  };

  std::string path;
  Kind kind = Kind::kMissing;
  std::vector<Part> parts;  // one, but for a poolset

  // Reads what is there. NotFound is not an error here: kMissing.
  static absl::StatusOr<PoolPath> Inspect(const std::string& path);

  // Sum over the parts; a part that is missing counts with the size it is to get.
  uint64_t bytes() const;
  // True when any part holds more than zeros at its begin.
  absl::StatusOr<bool> Occupied() const;
};

// An absl status for errno, `what` first: PermissionDenied, NotFound, ResourceExhausted, ...
absl::Status ErrnoStatus(int error, const std::string& what);

}  // namespace lodgekv::pmem
