// The first baseline: absl::btree_map from 8-byte keys to 8-byte values, volatile, one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/container/btree_map.h"
#include "bench/engine_bench/target.h"

namespace lodgekv::bench {

// Counts the bytes that the map has allocated: the container does not report it.
template <class T>
class CountingAllocator {
 public:
  using value_type = T;

  explicit CountingAllocator(uint64_t* bytes) : bytes_(bytes) {}
  template <class U>
  CountingAllocator(const CountingAllocator<U>& other) : bytes_(other.bytes()) {}  // NOLINT

  T* allocate(size_t n) {  // NOLINT(readability-identifier-naming): the standard's name
    *bytes_ += n * sizeof(T);
    return std::allocator<T>().allocate(n);
  }
  void deallocate(T* p, size_t n) {  // NOLINT(readability-identifier-naming)
    *bytes_ -= n * sizeof(T);
    std::allocator<T>().deallocate(p, n);
  }
  uint64_t* bytes() const { return bytes_; }

  template <class U>
  bool operator==(const CountingAllocator<U>& other) const {
    return bytes_ == other.bytes();
  }

 private:
  uint64_t* bytes_;
};

class BtreeTarget final : public Target {
 public:
  using Map = absl::btree_map<uint64_t, uint64_t, std::less<uint64_t>,
                              CountingAllocator<std::pair<const uint64_t, uint64_t>>>;

  explicit BtreeTarget(uint64_t seed);

  const TargetId& id() const override { return id_; }
  const KeyWriter& key_writer() const override { return key_writer_; }
  uint32_t value_bytes() const override { return 8; }
  bool discards() const override { return false; }
  MemoryUse GetMemoryUse() const override { return {.medium_bytes = 0, .dram_bytes = bytes_}; }
  Tally Run(const OpBatch& batch, LatencyProbe* probe) override;

 private:
  const TargetId id_;
  const KeyWriter key_writer_;
  uint64_t bytes_ = 0;
  Map map_;
};

}  // namespace lodgekv::bench
