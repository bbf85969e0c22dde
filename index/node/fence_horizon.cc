#include "index/node/fence_horizon.h"

#include "index/node/checked_word.h"
#include "index/node/version_lock.h"
#include "index/pmem/crash_point.h"

namespace lodgekv {

// Waits until all numbers below `number`, which was the next one at some time, are fenced.
void FenceHorizon::WaitUntilFenced(uint64_t number) const {
  marks_.ForEach([number](const Mark& mark) {
    for (Backoff wait; mark.unfenced_from.load(std::memory_order_acquire) < number;) {
      wait.PauseLong();
    }
  });
}

bool FenceHorizon::Raise(uint64_t number) {
  const std::lock_guard lock(mutex_);
  pmem::Medium& medium = pool_.medium();
  // A thread that failed to fence its numbers has noticed that before it called EndTaking.
  if (medium.failed()) return false;
  if (number > fenced_below_ && !medium.Canary("node.fence_horizon.stays")) {
    fenced_below_ = number;
    medium.Store(word_, CheckedWord(number));
    medium.FlushLine(&word_);
    LODGEKV_CRASH_POINT(medium, "node.fence_horizon.1");
    medium.Fence();
  }
  return !medium.failed();
}

Reclaimer::Horizon FenceHorizon::ForReclaimer() {
  return {.now = [this] { return pool_.PeekSequence(); },
          .reached =
              [this](uint64_t number) {
                WaitUntilFenced(number);
                return Raise(number);
              }};
}

}  // namespace lodgekv
