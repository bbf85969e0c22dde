// Does a script again, without the search that found it: exactly, or with a look at all images of
// its last step.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tests/crash/explorer/explorer.h"
#include "tests/crash/lab/hands.h"
#include "tests/crash/lab/script.h"

namespace lodgekv::test {

class Replay {
 public:
  enum class Way : uint8_t {
    kExactly,  // only the script's own images
    kAround,   // every position of its last step, and what is there after each other step
  };
  struct Failure {
    std::string what;
    std::string lines;  // what is lost in the image that fails
    Script script;      // up to the failure, with that image
  };

  explicit Replay(const ExplorerOptions& options);
  ~Replay();

  // `variant` 0: lives end with the images of the script, as far as they fit; others: with images
  // drawn at random.
  std::optional<Failure> Run(const Script& script, Way way, uint64_t variant);
  uint64_t images() const { return images_; }

 private:
  class Life;

  const ExplorerOptions options_;
  const OptionValues engine_options_;
  const Workload workload_;
  Hands hands_;
  uint64_t images_ = 0;
};

}  // namespace lodgekv::test
