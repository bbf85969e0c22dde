// What a tree leaves of its recovery, as RestOfRecovery drives it (rest_of_recovery.h): settling
// the leaves that nobody has touched (settle_at_touch.h), or a sweep that marks what is in use as
// well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/pmem/pool_contents.h"
#include "index/recovery_state.h"

namespace lodgekv {

// SettleSome and End are called by one thread at a time, perhaps inside an EpochGuard and under
// locks. The others may be called at any time.
class RecoverySweep {
 public:
  struct Progress {
    uint64_t done = 0;
    uint64_t total = 0;
  };

  virtual ~RecoverySweep() = default;
  virtual bool unfinished() const = 0;
  // A step of about `count` times 50 us. False: nothing is left, or an error has ended it.
  virtual bool SettleSome(size_t count) = 0;
  // Nothing is left, and all is marked: from its return on free space may be allocated.
  virtual void End() = 0;
  virtual Progress progress() const = 0;
  virtual absl::Status status() const = 0;
  // For Status and metrics.
  virtual std::string_view phase() const = 0;
  // Adds what it has found to the report of recovery. After End.
  virtual void AddTo(RecoveryReport*) const {}
};

// A step of a sweep: verifies some of what nobody has touched, of a pool that was closed cleanly.
// False: nothing of it is left, or `*status` says what is damaged.
inline bool VerifySome(pmem::PoolContents& contents, absl::Status* status) {
  const absl::StatusOr<bool> more = contents.VerifySome();
  if (!more.ok()) *status = more.status();
  return more.ok() && *more;
}

}  // namespace lodgekv
