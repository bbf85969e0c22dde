#include "base/lock_order.h"

#include "absl/synchronization/mutex.h"

namespace lodgekv {

void SkipLockOrderCheck() {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}

}  // namespace lodgekv
