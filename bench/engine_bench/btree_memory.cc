#include "bench/engine_bench/btree_memory.h"

#include <sys/mman.h>

#include <new>

namespace lodgekv::bench {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kRegion = size_t{64} << 20;
constexpr size_t kLine = 64;  // nodes begin on one

}  // namespace

BtreeMemory::~BtreeMemory() {
  for (void* region : regions_) munmap(region, kRegion + kHugePage);
}

void* BtreeMemory::Allocate(size_t bytes) {
  bytes_ += bytes;
  return pages_ == Pages::kHuge ? TakeHuge(bytes) : operator new(bytes);
}

void BtreeMemory::Deallocate(void* memory, size_t bytes) {
  bytes_ -= bytes;
  if (pages_ == Pages::kHuge) {
    free_[bytes].push_back(memory);
  } else {
    operator delete(memory, bytes);
  }
}

void* BtreeMemory::TakeHuge(size_t bytes) {
  std::vector<void*>& free = free_[bytes];
  if (!free.empty()) {
    void* memory = free.back();
    free.pop_back();
    return memory;
  }
  const size_t taken = (bytes + kLine - 1) / kLine * kLine;
  if (taken > left_) Map();
  if (taken > left_) throw std::bad_alloc();
  void* memory = next_;
  next_ += taken;
  left_ -= taken;
  return memory;
}

void BtreeMemory::Map() {
  void* region = mmap(nullptr, kRegion + kHugePage, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (region == MAP_FAILED) throw std::bad_alloc();
  regions_.push_back(region);
  const auto begin = reinterpret_cast<uintptr_t>(region);
  next_ = reinterpret_cast<char*>((begin + kHugePage - 1) / kHugePage * kHugePage);
  left_ = kRegion;
  // A system without huge pages gives small ones, as it does to the engines.
  (void)madvise(next_, kRegion, MADV_HUGEPAGE);
}

}  // namespace lodgekv::bench
