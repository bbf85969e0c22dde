// A store with the dram engine whose results a test can replace, to see how the server handles
// them.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "index/store.h"

namespace lodgekv::server::testing {

// What the engine returns or does instead; shared with the store, and may be set at any time.
struct Faults {
  // kOk: no fault. Else puts that would be applied are refused with it; deletes are applied.
  std::atomic<Outcome> puts{Outcome::kOk};
  // For reads and scans.
  std::atomic<Outcome> reads{Outcome::kOk};
  // Called with the size of each group or batch of writes before it is applied.
  std::function<void(size_t)> on_write;
  // Called before a read of one key whose value may have any length.
  std::function<void()> on_long_read;
  // The store pretends that a fence may wait for a disk: writes then occupy no poller. Before the
  // store is opened.
  bool long_fences = false;
  // Called between two steps of a check, with nothing locked.
  std::function<void()> on_check;
  // If set, the store pretends to be on an ordinary file whose journal was replayed.
  std::optional<JournalUse> journal;
  // If set, the engine's state of recovery.
  std::function<RecoveryState()> recovery;
  std::atomic<bool> closed{false};
  absl::Status close_status = absl::OkStatus();
};

// As Store::Open, for engine dram.
absl::StatusOr<std::unique_ptr<Store>> OpenFakeStore(const StoreOptions& options,
                                                     std::shared_ptr<Faults> faults);

}  // namespace lodgekv::server::testing
