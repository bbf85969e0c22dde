// The libpmemobj pool below a Pool: created, opened, closed and undone.
//
// A pool file is created under the name NAME.creating and renamed by Publish when it is complete: a
// crash at any moment leaves no partial pool at NAME. What it leaves at NAME.creating is removed by
// the next Create; one that another process is making is not taken for that. Devices and poolsets
// are created in place.
#pragma once

#include <libpmemobj.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/pmem/internal/bad_page.h"
#include "index/pmem/pool_path.h"

namespace lodgekv::pmem {

class PoolMapping {
 public:
  // `path` is not occupied. `bytes`: size of a file, 0 for a device or poolset.
  static absl::StatusOr<std::unique_ptr<PoolMapping>> Create(const PoolPath& path, uint64_t bytes);
  static absl::StatusOr<std::unique_ptr<PoolMapping>> Open(const PoolPath& path);
  // Closes; undoes a creation that was not published.
  ~PoolMapping();
  PoolMapping(const PoolMapping&) = delete;
  PoolMapping& operator=(const PoolMapping&) = delete;

  PMEMobjpool* pop() const { return pop_; }
  char* base() const { return reinterpret_cast<char*>(pop_); }
  // The current path; the parts' paths are those under which they can be opened now.
  const PoolPath& path() const { return path_; }

  // Creates the root object of a new pool, or finds that of an existing one (0). It holds the
  // header.
  absl::Status TakeRoot(uint64_t bytes_when_new);
  char* header() const { return header_; }  // aligned to 256
  uint64_t header_bytes() const { return header_bytes_; }

  // Gives a new pool its name, durably.
  absl::Status Publish();
  // Closes, and removes the files, or the metadata that makes the device a pool.
  absl::Status CloseAndRemove();

 private:
  explicit PoolMapping(const PoolPath& path) : path_(path) {}

  const std::string& file() const { return path_.parts[0].path; }

  PoolPath path_;
  PMEMobjpool* pop_ = nullptr;
  std::optional<WatchedPages> watched_;  // until libpmemobj has closed the pool
  bool published_ = true;
  bool replaces_empty_file_ = false;
  char* header_ = nullptr;
  uint64_t header_bytes_ = 0;
};

}  // namespace lodgekv::pmem
