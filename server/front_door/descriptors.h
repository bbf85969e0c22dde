// File descriptors of the process: how many it may have, and one kept for when there are none.
#pragma once

#include <cstdint>

#include "server/front_door/unique_fd.h"

namespace lodgekv::server {

// As many as the hard limit allows; the soft one is often 1,024, for programs that use select(2).
void RaiseDescriptorLimit();

// How many more may be opened now.
uint64_t FreeDescriptors();

// A descriptor to give up when another is needed to refuse a connection that waits.
class SpareDescriptor {
 public:
  SpareDescriptor() { Take(); }
  // False: there is none to take.
  bool Take();
  void GiveUp() { fd_.Reset(); }
  // Beside the spare one.
  bool IsAnotherLeft() const;

 private:
  UniqueFd fd_;
};

}  // namespace lodgekv::server
