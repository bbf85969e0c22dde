#include "base/lock_order.h"

#include <gtest/gtest.h>

#include "absl/synchronization/mutex.h"

namespace lodgekv {
namespace {

// No deadlock, since one thread takes both; the check reports it all the same.
void LockInBothOrders() {
  absl::Mutex first;
  absl::Mutex second;
  {
    const absl::MutexLock outer(&first);
    const absl::MutexLock inner(&second);
  }
  const absl::MutexLock outer(&second);
  const absl::MutexLock inner(&first);
}

// Each in a child, so that the mode of this process stays as it is.
TEST(LockOrderTest, IsNotCheckedWhereItIsSkipped) {
  EXPECT_EXIT(
      {
        absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kAbort);
        SkipLockOrderCheck();
        LockInBothOrders();
        std::_Exit(0);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace lodgekv
