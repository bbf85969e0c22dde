#include "tests/support/arena_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "tests/support/random.h"

namespace lodgekv::test {
namespace {

constexpr size_t kPageBytes = 4096;

}  // namespace

ArenaMemory::ArenaMemory(uint64_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap of an arena");
  memory_ = {static_cast<std::byte*>(at), bytes};
}

ArenaMemory::~ArenaMemory() {
  if (!memory_.empty()) munmap(memory_.data(), memory_.size());
}

ArenaMemory::ArenaMemory(ArenaMemory&& other) noexcept
    : memory_(std::exchange(other.memory_, {})) {}

ArenaMemory& ArenaMemory::operator=(ArenaMemory&& other) noexcept {
  std::swap(memory_, other.memory_);
  return *this;
}

void ArenaMemory::FillWithGarbage(uint64_t seed) {
  for (size_t at = 0; at + sizeof(uint64_t) <= memory_.size(); at += sizeof(uint64_t)) {
    const uint64_t word = MixBits(seed + at);
    std::memcpy(memory_.data() + at, &word, sizeof(word));
  }
}

ArenaMemory ArenaMemory::Copy() const {
  static constexpr std::byte kZeros[kPageBytes] = {};
  ArenaMemory copy(memory_.size());
  for (size_t at = 0; at < memory_.size(); at += kPageBytes) {
    const size_t bytes = std::min(kPageBytes, memory_.size() - at);
    if (std::memcmp(memory_.data() + at, kZeros, bytes) == 0) continue;  // untouched: stays so
    std::memcpy(copy.memory_.data() + at, memory_.data() + at, bytes);
  }
  return copy;
}

}  // namespace lodgekv::test
