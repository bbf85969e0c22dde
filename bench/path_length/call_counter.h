// Makes the calls that are counted, each inside a function that is named after its path and way, so
// that callgrind can collect what each of them costs: see counted_call.h.
//
// Which way a call takes is known only when it is over. So a program runs twice, and does the same
// both times: the first run notes the ways, the second makes each call in the function of its way.
// Invariant: the second run ends with an error when a call takes another way than the first time.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "bench/path_length/path.h"
#include "index/engine.h"

namespace lodgekv::bench {

class CallCounter {
 public:
  // `noted`: of a first run; empty: this is the first run.
  CallCounter(const Engine& engine, std::string noted)
      : engine_(engine), noted_(std::move(noted)) {}

  void Call(Path path, absl::FunctionRef<void()> call);

  // One letter for each call that has ways.
  const std::string& ways() const { return ways_; }
  uint64_t calls(Path path, Way way) const {
    return calls_[static_cast<size_t>(path)][static_cast<size_t>(way)];
  }
  // FailedPrecondition when the second run was not as the first.
  absl::Status CheckRepeated() const;

 private:
  // Running totals of the counters that tell ways.
  struct Events {
    double flushes = 0;
    double splits = 0;
  };
  Events CountEvents() const;
  Way Expected() const;

  const Engine& engine_;
  const std::string noted_;
  std::string ways_;
  std::array<std::array<uint64_t, kWays>, kPaths> calls_{};
};

}  // namespace lodgekv::bench
