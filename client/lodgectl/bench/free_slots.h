// What is free of what may be in flight.
#pragma once

#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "client/lodgectl/bench/pace.h"

namespace lodgekv::lodgectl {

// Thread-safe.
template <typename Slot>
class FreeSlots {
 public:
  void Add(Slot slot) {
    const absl::MutexLock lock(&mutex_);
    free_.push_back(std::move(slot));
  }

  // Waits for one, until the run is over. False: there is none.
  bool Take(const BenchSpan& span, Slot& slot) {
    const absl::MutexLock lock(&mutex_);
    while (free_.empty()) {
      if (span.IsOver()) return false;
      mutex_.AwaitWithTimeout(absl::Condition(this, &FreeSlots::HasAny), kLongestWait);
    }
    slot = std::move(free_.back());
    free_.pop_back();
    return true;
  }

 private:
  static constexpr absl::Duration kLongestWait = absl::Milliseconds(100);

  bool HasAny() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return !free_.empty(); }

  absl::Mutex mutex_;
  std::vector<Slot> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lodgekv::lodgectl
