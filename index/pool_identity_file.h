// A file that remembers which pool was served, kept where it does not go with the pool: with it a
// pool that is missing, emptied or another's is refused, and not made anew or taken for the right
// one.
//
// One line: "lodgekv pool", and the pool's id in hex. Written once, when a pool is served for the
// first time; whoever means another pool removes it.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lodgekv {

class PoolIdentityFile {
 public:
  explicit PoolIdentityFile(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }

  // The id; nothing when there is no such file. DataLoss when it holds anything but that line.
  absl::StatusOr<std::optional<std::string>> Read() const;

  // Durable on return, with its name. AlreadyExists when there is one.
  absl::Status Write(const std::string& pool_id) const;

 private:
  const std::string path_;
};

}  // namespace lodgekv
