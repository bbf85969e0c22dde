// What an optimistic descent has seen of a node, or of the root slot: valid while its version is.
#pragma once

#include <cstdint>

#include "index/art/node.h"
#include "index/node/version_lock.h"

namespace lodgekv::art {

// Leads to the topmost node, or to the only leaf. Its lock is that of a parent.
struct Root {
  VersionLock lock;
  Slot child;
};

class View {
 public:
  View() = default;
  explicit View(const VersionLock& lock) : lock_(&lock), version_(lock.ReadBegin()) {}

  bool Holds() const { return lock_->Validate(version_); }
  uint64_t version() const { return version_; }

 private:
  const VersionLock* lock_ = nullptr;
  uint64_t version_ = 0;
};

// The next step of a descent, from what `above` has shown: waits for the child's writer, and takes
// its version before it validates the parent's (DaMoN 2016, "Optimistic Lock Coupling"). False: the
// parent has changed, and the child may be any node.
inline bool StepInto(Child child, View* above) {
  const View here(child.node()->lock);
  if (!above->Holds()) [[unlikely]]
    return false;
  *above = here;
  return true;
}

}  // namespace lodgekv::art
