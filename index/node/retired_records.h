// Records that nothing refers to any more, collected by one thread until the reclaimer takes them.
//
// The reclaimer's thread is woken once for what is collected, and makes every other thread of the
// process pass a barrier: so it should be many. But nobody else can use it when the pool is full:
// so its bytes are few. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "index/node/reclaimer.h"
#include "index/pmem/record_slab.h"

namespace lodgekv {

class RetiredRecords {
 public:
  static constexpr size_t kMostRecords = 1'024;
  static constexpr uint64_t kMostBytes = uint64_t{256} << 10;

  void Add(const pmem::RecordSlab& slab, pmem::Offset record) {
    records_.push_back(record);
    bytes_ += slab.SpaceAt(record);
    full_ = records_.size() >= kMostRecords || bytes_ >= kMostBytes;
  }
  bool empty() const { return records_.empty(); }
  // Time to pass them to the reclaimer.
  bool full() const { return full_; }
  std::span<const pmem::Offset> records() const { return records_; }
  // Of all records together.
  uint64_t bytes() const { return bytes_; }

  // Frees these, and all that the reclaimer holds; see there.
  bool Drain(Reclaimer& reclaimer) {
    bytes_ = 0;
    full_ = false;
    return reclaimer.Drain(records_);
  }
  // Must not be called inside an EpochGuard.
  void HandTo(Reclaimer& reclaimer) {
    if (records_.empty()) return;
    full_ = false;
    reclaimer.Retire(records_, std::exchange(bytes_, 0));
  }

 private:
  std::vector<pmem::Offset> records_;
  uint64_t bytes_ = 0;
  bool full_ = false;
};

}  // namespace lodgekv
