// Replays a script without the search that found it: exactly, or with a check of all images of its
// last step.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tests/crash/explorer/explorer.h"
#include "tests/crash/lab/script.h"
#include "tests/crash/lab/workers.h"

namespace lodgekv::test {

class Replay {
 public:
  enum class Way : uint8_t {
    kExactly,  // only the script's own images
    kAround,   // every position of its last step, and the state after each other step
  };
  struct Failure {
    std::string what;
    std::string lines;  // what the failing image has lost
    Script script;      // up to the failure, with that image
  };

  explicit Replay(const ExplorerOptions& options);
  ~Replay();

  // `variant` 0: runs end with the images of the script, as far as they fit. Other values: with
  // random images.
  std::optional<Failure> Run(const Script& script, Way way, uint64_t variant);
  uint64_t images() const { return images_; }

 private:
  class EngineRun;

  const ExplorerOptions options_;
  const OptionValues engine_options_;
  const Workload workload_;
  Workers workers_;
  uint64_t images_ = 0;
};

}  // namespace lodgekv::test
