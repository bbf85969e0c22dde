// A file that records which pool was served, stored outside of the pool. With it a missing, empty
// or foreign pool is refused instead of created anew or mistaken for the right one.
//
// One line: "lodgekv pool", and the pool's id in hex. Written once, when a pool is served for the
// first time. To serve another pool, an operator removes the file.
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

  // Returns the id, or nothing if there is no such file. DataLoss if the content is anything else.
  absl::StatusOr<std::optional<std::string>> Read() const;

  // The file and its name are durable on return. AlreadyExists if there is one.
  absl::Status Write(const std::string& pool_id) const;

 private:
  const std::string path_;
};

}  // namespace lodgekv
