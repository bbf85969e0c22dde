// Page-aligned memory that emulates a pool in tests. Pages are allocated when they are touched, so
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
  // Stale bytes of an earlier use: a new pool must not take them for its own.
  void FillWithGarbage(uint64_t seed);
  // The same bytes at another address.
  ArenaMemory Copy() const;

 private:
  std::span<std::byte> memory_;
};

}  // namespace lodgekv::test
