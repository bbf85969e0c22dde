// Page-aligned memory that stands in for a pool in tests. Pages are there once they are touched, so
// a large one costs nothing until it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lodgekv::test {

class ArenaMemory {
 public:
  explicit ArenaMemory(uint64_t bytes);
  ~ArenaMemory();
  ArenaMemory(ArenaMemory&& other) noexcept;
  ArenaMemory& operator=(ArenaMemory&& other) noexcept;

  std::span<std::byte> span() const { return memory_; }
  // Bytes of an earlier life: a new pool must not take them for its own.
  void FillWithGarbage(uint64_t seed);
  // The same bytes at another address.
  ArenaMemory Copy() const;

 private:
  std::span<std::byte> memory_;
};

}  // namespace lodgekv::test
