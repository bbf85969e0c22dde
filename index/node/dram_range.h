// Space for nodes in DRAM whose addresses are all within one range, so that 32 bits name one. The
// range is reserved as a whole, which takes no memory; its pages come into use in order, small ones
// first, huge ones where there are many nodes. Nothing is given back until the end. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

namespace lodgekv {

class DramRange {
 public:
  // Throws std::bad_alloc if there are not so many addresses: 32 GiB, for 800 million nodes of 40
  // bytes.
  DramRange();
  ~DramRange();
  DramRange(const DramRange&) = delete;
  DramRange& operator=(const DramRange&) = delete;

  // Zeroed, 64-byte aligned. Throws std::bad_alloc if the range or the memory is at its end.
  void* Allocate(size_t bytes);

  // What is at an address, which is a multiple of 8, in the range; never 0.
  uint32_t NumberOf(const void* at) const {
    return static_cast<uint32_t>((static_cast<const char*>(at) - begin_) / kUnit);
  }
  void* At(uint32_t number) const { return begin_ + size_t{number} * kUnit; }

  // Allocated bytes.
  uint64_t used_bytes() const;

 private:
  static constexpr size_t kUnit = 8;
  static constexpr size_t kBytes = kUnit << 32;
  static constexpr size_t kFirst = 64;  // what number 0 would name

  void Extend(size_t end);

  void* mapping_;
  char* begin_;
  mutable std::mutex mutex_;
  size_t next_ = kFirst;
  size_t usable_ = 0;  // bytes that may be accessed
};

}  // namespace lodgekv
