#include "index/pmem/internal/unit_cache.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <thread>

namespace lodgekv::pmem {
namespace {

int Membarrier(int command) { return static_cast<int>(syscall(SYS_membarrier, command, 0, 0)); }

}  // namespace

bool ProcessBarrierAvailable() {
  static const bool available = Membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
  return available;
}

void ProcessBarrier() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!ProcessBarrierAvailable()) return;
  // A forked child may have to register again.
  while (Membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0) {
    Membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
  }
}

void UnitCache::Await() const {
  while (busy_.load(std::memory_order_acquire)) std::this_thread::yield();
}

}  // namespace lodgekv::pmem
