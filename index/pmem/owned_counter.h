// A counter that one thread increments and any thread reads.
#pragma once

#include <atomic>
#include <cstdint>

namespace lodgekv::pmem {

class OwnedCounter {
 public:
  // By its thread only. One instruction that needs no register, where compilers make three of the
  // load and the store of an atomic.
  void Add(uint64_t n) {
#ifdef __SANITIZE_THREAD__
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
#else
    asm("addq %1, %0" : "+m"(value_) : "er"(n) : "cc");
#endif
  }
  uint64_t Load() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

}  // namespace lodgekv::pmem
