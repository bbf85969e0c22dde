// What exists at the path of a pool: a file, a poolset file that names several, or a device.
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
    uint64_t bytes = 0;          // current size; 0 if missing
    uint64_t wanted_bytes = 0;   // from a poolset's line; 0: the whole device
  };

  std::string path;
  Kind kind = Kind::kMissing;
  std::vector<Part> parts;  // one, except for a poolset

  // Reads what exists. A missing file is not an error: kMissing.
  static absl::StatusOr<PoolPath> Inspect(const std::string& path);

  // Sum over the parts; a missing part counts with its wanted size.
  uint64_t bytes() const;
  // True if any part begins with anything but zeros.
  absl::StatusOr<bool> Occupied() const;
};

// Converts errno to a status, `what` first: PermissionDenied, NotFound, ResourceExhausted, ...
absl::Status ErrnoStatus(int error, const std::string& what);

}  // namespace lodgekv::pmem
