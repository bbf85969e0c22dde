// How far a scan had to go, for tests and measurements that count steps and not time.
#pragma once

#include <cstdint>

namespace lodgekv {

// Leaves that the scans of this thread have taken.
inline thread_local uint64_t scanned_leaves = 0;

}  // namespace lodgekv
