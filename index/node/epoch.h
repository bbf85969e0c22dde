// Epochs by liburcu (the bp flavour: threads need no registration). A reader of records holds a
// guard from before it reads the word that leads to a record until it has copied the record out; a
// record is freed only when every guard that was held at its unlinking has ended.
#pragma once

#include <cstdint>

namespace lodgekv {

// Never held while waiting for a lock, a fence or a client, but for the fence of a first touch
// after a kill (settle_at_touch.h).
class EpochGuard {
 public:
  EpochGuard();
  ~EpochGuard();
  EpochGuard(const EpochGuard&) = delete;
  EpochGuard& operator=(const EpochGuard&) = delete;

  // Whether the calling thread holds one.
  static bool IsHeld();
};

// Returns when every guard that was held when it was called has ended. Not inside a guard.
void WaitForEpochs();

}  // namespace lodgekv
