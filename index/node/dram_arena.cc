#include "index/node/dram_arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace lodgekv {

namespace {
// Small trees stay small, and their blocks come from the heap; large ones get huge pages, which cut
// the tail latency of inserts.
constexpr size_t kFirstBlock = size_t{8} << 10;
constexpr size_t kLargestBlock = size_t{64} << 20;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kUnit = 64;

void* Map(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return memory;
}
}  // namespace

DramArena::~DramArena() {
  for (const Block& block : blocks_) {
    if (block.bytes >= kHugePage) {
      munmap(block.begin, block.bytes);
    } else {
      operator delete (block.begin, std::align_val_t{kUnit});
    }
  }
}

void DramArena::AddBlock(size_t at_least) {
  size_t bytes = blocks_.empty() ? kFirstBlock : std::min(blocks_.back().bytes * 4, kLargestBlock);
  bytes = std::max(bytes, at_least);
  const bool huge = bytes >= kHugePage;
  if (huge) bytes += kHugePage;
  void* memory = huge ? Map(bytes) : operator new (bytes, std::align_val_t{kUnit});
  if (!huge) std::memset(memory, 0, bytes);
  blocks_.push_back({static_cast<char*>(memory), bytes});
  char* begin = blocks_.back().begin;
  char* end = begin + bytes;
  if (huge) {
    begin = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(begin) + kHugePage - 1) &
                                    ~(kHugePage - 1));
    madvise(begin, static_cast<size_t>(end - begin), MADV_HUGEPAGE);
  }
  next_ = begin;
  left_ = static_cast<size_t>(end - begin);
}

void* DramArena::Allocate(size_t bytes) {
  bytes = (bytes + kUnit - 1) & ~(kUnit - 1);
  const std::lock_guard lock(mutex_);
  if (bytes > left_) AddBlock(bytes);
  void* result = next_;
  next_ += bytes;
  left_ -= bytes;
  used_ += bytes;
  return result;
}

// The last block stays last: its size determines that of the next one.
void DramArena::Take(DramArena& other) {
  const std::scoped_lock lock(mutex_, other.mutex_);
  blocks_.insert(blocks_.begin(), other.blocks_.begin(), other.blocks_.end());
  used_ += std::exchange(other.used_, 0);
  other.blocks_.clear();
  other.next_ = nullptr;
  other.left_ = 0;
}

uint64_t DramArena::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

}  // namespace lodgekv
