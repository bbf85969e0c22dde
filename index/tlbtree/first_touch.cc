#include "index/tlbtree/first_touch.h"

#include <new>

namespace lodgekv::tlbtree {

void FirstTouch::Begin(bool settle) {
  settle_ = settle;
  const uint64_t words = pool_.bytes() / pmem::kLineBytes / 64 + 1;
  // Zero pages of the system: nothing is written here.
  void* bits = std::calloc(words, sizeof(uint64_t));
  if (bits == nullptr) throw std::bad_alloc();
  bits_.reset(static_cast<std::atomic<uint64_t>*>(bits));
  active_.store(true, std::memory_order_release);
}

bool FirstTouch::Settle(pmem::Offset offset, uint64_t bytes) {
  pmem::Medium& medium = pool_.medium();
  if (settle_ && !medium.Canary("tlbtree.touch.not_settled")) {
    medium.Flush(pool_.At<char>(offset), bytes);
    medium.Fence();
    if (medium.failed()) return false;
  }
  NoteDone(offset);
  return true;
}

}  // namespace lodgekv::tlbtree
