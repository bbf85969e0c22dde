// The numbers of records that are inserted while others choose among those there are. A number is
// known once it and all before it have been answered, so that every known record is found.
#pragma once

#include <cstdint>
#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace lodgekv::workload {

class InsertSequence {
 public:
  explicit InsertSequence(uint64_t count) : next_(count), known_(count) {}

  uint64_t Take() {
    const absl::MutexLock lock(&mutex_);
    return next_++;
  }
  void Answered(uint64_t number) {
    const absl::MutexLock lock(&mutex_);
    answered_.insert(number);
    for (; !answered_.empty() && *answered_.begin() == known_; ++known_) {
      answered_.erase(answered_.begin());
    }
  }
  // All below this.
  uint64_t known() const {
    const absl::MutexLock lock(&mutex_);
    return known_;
  }

 private:
  mutable absl::Mutex mutex_;
  uint64_t next_ ABSL_GUARDED_BY(mutex_);
  uint64_t known_ ABSL_GUARDED_BY(mutex_);
  std::set<uint64_t> answered_ ABSL_GUARDED_BY(mutex_);  // of those not known yet
};

}  // namespace lodgekv::workload
