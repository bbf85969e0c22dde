// A store over the dram engine whose answers a test can spoil, to see what the server makes of
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

// What the engine is to do instead of its work; shared with the store, and set at any time.
struct Faults {
  // kOk: no fault. Puts that would be applied are refused with it, deletes are applied.
  std::atomic<Outcome> puts{Outcome::kOk};
  // Reads and scans.
  std::atomic<Outcome> reads{Outcome::kOk};
  // Called with the size of each group or batch of writes before it is applied.
  std::function<void(size_t)> on_write;
  // Called between two steps of a check, with nothing locked.
  std::function<void()> on_check;
  // Not none: the store is one on an ordinary file, whose journal has replayed something.
  std::optional<JournalUse> journal;
  std::atomic<bool> closed{false};
  absl::Status close_status = absl::OkStatus();
};

// As Store::Open, for engine dram.
absl::StatusOr<std::unique_ptr<Store>> OpenFakeStore(const StoreOptions& options,
                                                     std::shared_ptr<Faults> faults);

}  // namespace lodgekv::server::testing
