// Calls an engine along one path after another, on a tree of uniform random keys with values of 8
// bytes. Every answer is checked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "bench/engine_bench/engine_target.h"
#include "bench/engine_bench/key_space.h"
#include "bench/path_length/call_counter.h"
#include "bench/path_length/path.h"

namespace lodgekv::bench {

class PathRunner {
 public:
  // The target is empty; both outlive the runner.
  PathRunner(EngineTarget& target, CallCounter& counter, uint64_t seed)
      : target_(target), engine_(target.store().engine()), counter_(counter), keys_(seed) {}

  // At most, by a Run of each path.
  static uint64_t MostKeysAdded(uint64_t calls);

  [[nodiscard]] absl::Status Load(uint64_t keys);
  // After some calls that are not counted.
  [[nodiscard]] absl::Status Run(Path path, uint64_t calls);

 private:
  // How a call is made: counted, or not.
  using Make = absl::FunctionRef<void(absl::FunctionRef<void()>)>;

  absl::Status RunOnce(Path path, Make make);
  absl::Status Read(Path path, Make make);
  absl::Status Scan(Make make);
  absl::Status Write(Path path, Make make);

  KeyRef DrawKey(Path path);
  // Keys for a call, in text_.
  void DrawKeys(Path path);
  absl::Status Check(Path path, Outcome outcome, uint64_t right, uint64_t wanted) const;

  EngineTarget& target_;
  Engine& engine_;
  CallCounter& counter_;
  KeySpace keys_;
  char generation_ = 0;
  std::vector<std::string> texts_;
  std::vector<std::string> values_;
  std::vector<WriteOp> ops_;
  std::vector<WriteResult> written_;
  std::vector<std::string_view> views_;
  std::vector<ReadResult> read_;
};

}  // namespace lodgekv::bench
