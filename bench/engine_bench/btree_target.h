// The first baseline: absl::btree_map from 8-byte keys to 8-byte values, volatile, one thread; on
// the heap's pages or on huge ones, as engines have them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/container/btree_map.h"
#include "bench/engine_bench/btree_memory.h"
#include "bench/engine_bench/target.h"

namespace lodgekv::bench {

// Takes the map's nodes from BtreeMemory.
template <class T>
class BtreeAllocator {
 public:
  using value_type = T;

  explicit BtreeAllocator(BtreeMemory* memory) : memory_(memory) {}
  template <class U>
  BtreeAllocator(const BtreeAllocator<U>& other) : memory_(other.memory()) {}  // NOLINT

  T* allocate(size_t n) {  // NOLINT(readability-identifier-naming): the standard's name
    return static_cast<T*>(memory_->Allocate(n * sizeof(T)));
  }
  void deallocate(T* p, size_t n) {  // NOLINT(readability-identifier-naming)
    memory_->Deallocate(p, n * sizeof(T));
  }
  BtreeMemory* memory() const { return memory_; }

  template <class U>
  bool operator==(const BtreeAllocator<U>& other) const {
    return memory_ == other.memory();
  }

 private:
  BtreeMemory* memory_;
};

class BtreeTarget final : public Target {
 public:
  using Map = absl::btree_map<uint64_t, uint64_t, std::less<uint64_t>,
                              BtreeAllocator<std::pair<const uint64_t, uint64_t>>>;

  explicit BtreeTarget(uint64_t seed, BtreeMemory::Pages pages = BtreeMemory::Pages::kHeap);

  const TargetId& id() const override { return id_; }
  const KeyWriter& key_writer() const override { return key_writer_; }
  uint32_t value_bytes() const override { return 8; }
  bool discards() const override { return false; }
  MemoryUse GetMemoryUse() const override {
    return {.medium_bytes = 0, .dram_bytes = memory_.bytes()};
  }
  Tally Run(const OpBatch& batch, LatencyProbe* probe) override;

 private:
  const TargetId id_;
  const KeyWriter key_writer_;
  BtreeMemory memory_;
  Map map_;
};

}  // namespace lodgekv::bench
