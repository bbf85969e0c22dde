#include "index/node/dram_range.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace lodgekv {

namespace {
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kLeast = size_t{64} << 10;
constexpr size_t kMost = size_t{64} << 20;
constexpr size_t kLine = 64;

size_t RoundedUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }
}  // namespace

DramRange::DramRange() {
  mapping_ = mmap(nullptr, kBytes + kHugePage, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping_ == MAP_FAILED) throw std::bad_alloc();
  begin_ = reinterpret_cast<char*>(RoundedUp(reinterpret_cast<uintptr_t>(mapping_), kHugePage));
  (void)madvise(begin_, kBytes, MADV_HUGEPAGE);  // best effort
}

DramRange::~DramRange() { munmap(mapping_, kBytes + kHugePage); }

void* DramRange::Allocate(size_t bytes) {
  bytes = RoundedUp(bytes, kLine);
  const std::lock_guard lock(mutex_);
  if (bytes > kBytes - next_) throw std::bad_alloc();
  if (next_ + bytes > usable_) Extend(next_ + bytes);
  void* result = begin_ + next_;
  next_ += bytes;
  return result;
}

// Below a huge page so little that the kernel gives small ones, then twice as much each time, up to
// a limit.
void DramRange::Extend(size_t end) {
  const size_t more = std::clamp(usable_, kLeast, kMost);
  const size_t usable = std::min(RoundedUp(std::max(usable_ + more, end), kLeast), kBytes);
  if (mprotect(begin_ + usable_, usable - usable_, PROT_READ | PROT_WRITE) != 0) {
    throw std::bad_alloc();
  }
  usable_ = usable;
}

uint64_t DramRange::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return next_ - kFirst;
}

}  // namespace lodgekv
