// The journal alone (index/pmem/internal/journal.h): stores, flushes, fences, freed space and
// checkpoints of several workers on the model of a disk whose power goes off at every moment. The
// image after a replay must be allowed by the crash model: each word holds what its last fence made
// durable, or a later store. The replay itself is interrupted, and some images are continued.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "tests/crash/lab/model_disk.h"
#include "tests/crash/lab/tracer.h"

namespace lodgekv::test {

struct JournalOutcome {
  uint64_t images = 0;
  uint64_t replays_cut = 0;
  std::array<uint64_t, kMoments> at{};  // images of each moment
  uint64_t checkpoints = 0;
  uint64_t pool_syncs = 0;
  uint64_t times_around = 0;  // how often the journal was filled
  std::set<std::string, std::less<>> crash_points;
  bool fault_happened = false;
  std::optional<std::string> problem;  // of the first wrong image
};

// When lines are copied to the journal.
enum class Copied : uint8_t {
  kAtTheFence,  // as they should
  kAtTheFlush,  // a deliberate mistake: a later group may hold older content
};

// One worker at a time; deterministic. Stops at the first problem.
JournalOutcome RunJournalScenario(Fault fault, uint64_t runs, Copied copied = Copied::kAtTheFence);
// Real threads, checkpoints in the background.
JournalOutcome RunJournalScenarioOfThreads(Fault fault, uint64_t runs);

}  // namespace lodgekv::test
