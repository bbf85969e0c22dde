// The locks that a change holds, three at most: of a node, of what leads to it, and of a child.
// They are only tried, so their order does not matter: a thread that finds one taken gives up the
// others and begins again.
#pragma once

#include "index/art/view.h"
#include "index/node/version_lock.h"

namespace lodgekv::art {

class HeldLocks {
 public:
  HeldLocks() = default;
  ~HeldLocks() {
    for (unsigned i = 0; i < count_; ++i) locks_[i]->Unlock();
  }
  HeldLocks(const HeldLocks&) = delete;
  HeldLocks& operator=(const HeldLocks&) = delete;

  // False: it is taken, or what `view` has shown has changed.
  bool Take(VersionLock& lock, const View& view) {
    return Add(lock, lock.TryUpgrade(view.version()));
  }
  // For a node that cannot be removed: the caller holds the lock of its only parent.
  bool Take(VersionLock& lock) { return Add(lock, lock.TryLock()); }

  // Readers see all of the change, or nothing.
  template <class Change>
  void Publish(Change change) {
    for (unsigned i = 0; i < count_; ++i) locks_[i]->BeginPublish();
    change();
    for (unsigned i = 0; i < count_; ++i) locks_[i]->EndPublish();
  }

 private:
  bool Add(VersionLock& lock, bool taken) {
    if (taken) locks_[count_++] = &lock;
    return taken;
  }

  VersionLock* locks_[3];
  unsigned count_ = 0;
};

}  // namespace lodgekv::art
