// The explorer's memory allocator. An image's engine exists for some ten microseconds, a quarter of
// which was spent in the system's allocator: freed blocks are reused at once for the same size.
// Sanitizer builds keep their own allocator.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {

constexpr size_t kStep = 16;
constexpr size_t kClasses = 64;  // up to 1024 bytes

// Precedes each block: its size class, or kClasses for a block of the system's allocator.
struct alignas(kStep) Head {
  size_t size_class;
  Head* next;
};
static_assert(sizeof(Head) == kStep);

struct FreeBlocks {
  std::array<Head*, kClasses> first{};
  bool gone = false;

  ~FreeBlocks() {
    gone = true;
    for (Head*& block : first) {
      while (block != nullptr) std::free(std::exchange(block, block->next));
    }
  }
};
thread_local FreeBlocks free_blocks;

}  // namespace

void* operator new(size_t bytes) {
  const size_t size_class = bytes == 0 ? 0 : (bytes - 1) / kStep;
  if (size_class < kClasses && free_blocks.first[size_class] != nullptr) {
    Head* block = free_blocks.first[size_class];
    free_blocks.first[size_class] = block->next;
    return block + 1;
  }
  const size_t rounded = size_class < kClasses ? (size_class + 1) * kStep : bytes;
  auto* block = static_cast<Head*>(std::malloc(sizeof(Head) + rounded));
  if (block == nullptr) throw std::bad_alloc();
  block->size_class = size_class < kClasses ? size_class : kClasses;
  return block + 1;
}

void operator delete(void* memory) noexcept {
  if (memory == nullptr) return;
  Head* block = static_cast<Head*>(memory) - 1;
  if (block->size_class == kClasses || free_blocks.gone) return std::free(block);
  block->next = free_blocks.first[block->size_class];
  free_blocks.first[block->size_class] = block;
}

void operator delete(void* memory, size_t) noexcept { operator delete(memory); }

#endif
