#include "index/node/epoch.h"

#include <urcu/urcu-bp.h>

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace lodgekv {

namespace {
// ThreadSanitizer does not see liburcu's barriers: the order that they make is told to it here.
[[maybe_unused]] char epoch_order;
}  // namespace

EpochGuard::EpochGuard() {
  urcu_bp_read_lock();
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(&epoch_order);
#endif
}

EpochGuard::~EpochGuard() {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(&epoch_order);
#endif
  urcu_bp_read_unlock();
}

void WaitForEpochs() {
  urcu_bp_synchronize_rcu();
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(&epoch_order);
  __tsan_release(&epoch_order);
#endif
}

}  // namespace lodgekv
