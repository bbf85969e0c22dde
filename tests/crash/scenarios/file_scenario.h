// Engines on an ordinary file: a pool with a journal (index/pmem/internal/pool_journal.h) on the
// model of a disk. The power goes off at every moment, with any mixture of the pool's pages. The
// result is opened by replay and the engine's real recovery, which is interrupted in turn, and
// compared. In between the process is killed, or ends by a failed sync, or the pool is closed
// cleanly, and opened again.
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
  uint64_t nested_images = 0;           // of these: in a run that began with a power cut
  uint64_t continued = 0;               // images whose run is continued
  std::array<uint64_t, kMoments> at{};  // images of each moment
  uint64_t replayed_groups = 0;
  std::set<std::string, std::less<>> crash_points;
  bool fault_happened = false;
  std::optional<std::string> problem;  // of the first wrong image
};

// Stops at the first problem.
FileOutcome RunFileScenario(const EngineCase& engine_case, Fault fault, uint64_t runs);

}  // namespace lodgekv::test
