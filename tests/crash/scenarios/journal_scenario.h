// The journal alone (index/pmem/internal/journal.h): stores, flushes, fences, space given back and
// checkpoints of several hands on a model of a disk, whose power goes off at every moment. What a
// replay makes of the image must be what the crash model allows: of each word what its last fence
// made durable, or a later store. The replay itself is cut, and some images are lived on.
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
  std::optional<std::string> problem;  // of the first image that is wrong
};

// How the lines reach the journal.
enum class Copied : uint8_t {
  kAtTheFence,  // as they should
  kAtTheFlush,  // a mistake: a later group may hold an older content
};

// One hand at a time; repeats. Ends with the first problem.
JournalOutcome RunJournalScenario(Fault fault, uint64_t runs, Copied copied = Copied::kAtTheFence);
// Real threads, checkpoints in the background.
JournalOutcome RunJournalScenarioOfThreads(Fault fault, uint64_t runs);

}  // namespace lodgekv::test
