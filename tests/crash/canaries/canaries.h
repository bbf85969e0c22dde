// The deliberate mistakes that the laboratory must notice. Those of an engine are listed in
// tests/engines; an engine without a row fails the test.
#pragma once

#include <span>
#include <string_view>

#include "tests/crash/canaries/bug_classes.h"
#include "tests/crash/lab/tracer.h"

namespace lodgekv::test {

// The crash models under which it is a mistake.
enum class Under : uint8_t { kBoth, kLinePrefix, kTornWords };
enum class In : uint8_t { kAny, kFixed64, kBytes };
// What must notice it: the explorer, or a scenario for one rule where the explorer would need too
// long or does not reach: the pool's creation and closing, and the end of the numbers.
enum class By : uint8_t {
  kExplorer,
  kReleasedLogs,
  kBatchInFlight,
  kKillThenCut,
  kBulkLoad,
  kPool,
  kHighNumbers,
  kJournal,         // the journal alone
  kJournalThreads,  // the same, with real threads
  kFile,            // engines over a pool with a journal
  kGenerations,     // arrays in two generations alone
};

// The group of mistakes in recovery's own order of persists. They show where recovery itself is
// interrupted or its outcome is continued.
inline constexpr std::string_view kBehindCrash = "behind a crash";

struct Canary {
  std::string_view name;   // what is wrong, for the table
  std::string_view group;  // the protocol
  Bugs bugs;
  Fault fault;
  Under under = Under::kBoth;
  In in = In::kAny;
  By by = By::kExplorer;
  // For the explorer: the only workload, and the engine's options ("gaps=15 height=1"), with which
  // the mistake matters. Empty: all workloads, options as drawn.
  std::string_view workload = {};
  std::string_view options = {};
};

// Empty if the engine has no row (tests/engines).
std::span<const Canary> CanariesOf(std::string_view engine);
// Mistakes that matter to several threads: deterministic schedules must notice them.
std::span<const Canary> ScheduleCanariesOf(std::string_view engine);
// Of the pool, on which every engine is built.
std::span<const Canary> PoolCanaries();
// Of parts of index/node, which have a scenario of their own.
std::span<const Canary> NodePartCanaries();

}  // namespace lodgekv::test
