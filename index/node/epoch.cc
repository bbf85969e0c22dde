#include "index/node/epoch.h"

#include <urcu/urcu-bp.h>

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace lodgekv {

namespace {
// ThreadSanitizer does not see liburcu's barriers: it is told that what was done within a guard
// happens before the end of a wait for it, and no more than that.
[[maybe_unused]] char epoch_order;
}  // namespace

EpochGuard::EpochGuard() { urcu_bp_read_lock(); }

EpochGuard::~EpochGuard() {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(&epoch_order);
#endif
  urcu_bp_read_unlock();
}

bool EpochGuard::IsHeld() { return urcu_bp_read_ongoing() != 0; }

void WaitForEpochs() {
  urcu_bp_synchronize_rcu();
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(&epoch_order);
#endif
}

}  // namespace lodgekv
