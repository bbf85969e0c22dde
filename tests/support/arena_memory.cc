#include "tests/support/arena_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "tests/support/random.h"

namespace lodgekv::test {
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

// What a kill finds at some moment: a thread of the engine may still store, by words or in bulk.
// Word by word, so that no word is torn.
__attribute__((no_sanitize("thread"))) ArenaMemory ArenaMemory::Copy() const {
  ArenaMemory copy(memory_.size());
  auto* from = reinterpret_cast<volatile uint64_t*>(memory_.data());
  auto* to = reinterpret_cast<uint64_t*>(copy.memory_.data());
  for (size_t i = 0; i < memory_.size() / sizeof(uint64_t); ++i) {
    const uint64_t word = from[i];
    if (word != 0) to[i] = word;  // untouched pages stay unallocated
  }
  return copy;
}

}  // namespace lodgekv::test
