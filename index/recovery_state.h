// What recovery did, and the state of one that an engine finishes while it serves.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace lodgekv {

// What recovery did; for the log, Status and metrics.
struct RecoveryReport {
  bool clean = false;  // the pool had been closed cleanly
  uint64_t leaves_scanned = 0;
  uint64_t keys = 0;
  uint64_t log_entries_replayed = 0;  // where leaves take them at first touch: when all have
  uint64_t log_entries_dropped = 0;   // unacknowledged tails of logs
  uint64_t repairs = 0;
  uint64_t bytes_reclaimed = 0;  // space without an owner that was freed
  unsigned threads = 1;
  unsigned replay_threads = 0;  // threads that replayed log entries before the first answer
  double milliseconds = 0;
};

// State of a recovery that may continue in the background; see Engine::GetRecoveryState.
struct RecoveryState {
  bool finished = true;  // also after an error: nothing runs any more
  // While not finished: `done` of `total` steps of the current phase; total 0: unknown.
  std::string phase = {};
  uint64_t done = 0;
  uint64_t total = 0;
  absl::Status error = absl::OkStatus();  // what ended the background part early
  // After a background part that ended without error: the numbers of the whole recovery, with the
  // time since `recover` was called. Otherwise absent: the report of `recover` is all there is.
  std::optional<RecoveryReport> report = {};
};

using RecoveryEnd = std::function<void(const RecoveryState& state)>;

}  // namespace lodgekv
