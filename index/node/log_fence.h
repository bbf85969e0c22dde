// The end of a fence group: steps 1 and 2 of writing a group (README). Every write passes here.
#pragma once

#include "index/pmem/crash_point.h"
#include "index/pmem/medium.h"

namespace lodgekv {

inline void EndAppend(pmem::Medium& medium) { LODGEKV_CRASH_POINT(medium, "node.log_append.1"); }

inline void FenceLog(pmem::Medium& medium) {
  medium.Fence();
  LODGEKV_CRASH_POINT(medium, "node.log_append.2");
}

}  // namespace lodgekv
