// File descriptors of the process: how many are left, and one in reserve.
#pragma once

#include <cstdint>

#include "server/front_door/unique_fd.h"

namespace lodgekv::server {

// Up to the hard limit; the soft one is often 1,024, for programs that use select(2).
void RaiseDescriptorLimit();

// How many more can be opened now.
uint64_t FreeDescriptors();

// A descriptor in reserve, to be closed when one is needed to refuse a pending connection.
class SpareDescriptor {
 public:
  SpareDescriptor() { Take(); }
  // False: none is available.
  bool Take();
  void GiveUp() { fd_.Reset(); }
  // Whether one is available besides the spare one.
  bool IsAnotherLeft() const;

 private:
  UniqueFd fd_;
};

}  // namespace lodgekv::server
