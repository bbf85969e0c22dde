// The applied index of a pool (index/engine.h), raised by batches that several threads commit.
// Thread-safe.
#pragma once

#include <cstdint>
#include <mutex>

#include "index/pmem/pool.h"

namespace lodgekv {

class AppliedIndex {
 public:
  explicit AppliedIndex(pmem::Pool& pool) : pool_(pool) {}

  // Durable on return; never decreases.
  void Raise(uint64_t index) {
    const std::lock_guard lock(mutex_);
    if (index > pool_.applied_index()) pool_.PersistAppliedIndex(index);
  }
  uint64_t value() const { return pool_.applied_index(); }

 private:
  pmem::Pool& pool_;
  std::mutex mutex_;
};

}  // namespace lodgekv
