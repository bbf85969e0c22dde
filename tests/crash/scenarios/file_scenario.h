// Engines on an ordinary file: over a pool with a journal (index/pmem/internal/pool_journal.h) on
// the model of a disk. The power goes off at every moment, with the pool's pages in any mixture;
// what is left is opened by replay and the engine's real recovery, which is cut in turn, and
// compared. In between the process is killed, or the pool closed cleanly, and opened again.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "tests/crash/lab/model_disk.h"
#include "tests/crash/lab/tracer.h"
#include "tests/support/engine_case.h"

namespace lodgekv::test {

struct FileOutcome {
  uint64_t images = 0;
  uint64_t nested_images = 0;           // of these: in a life that began with a power cut
  uint64_t lives = 0;                   // images lived on
  std::array<uint64_t, kMoments> at{};  // images of each moment
  uint64_t replayed_groups = 0;
  std::set<std::string, std::less<>> crash_points;
  bool fault_happened = false;
  std::optional<std::string> problem;  // of the first image that is wrong
};

// Ends with the first problem.
FileOutcome RunFileScenario(const EngineCase& engine_case, Fault fault, uint64_t runs);

}  // namespace lodgekv::test
