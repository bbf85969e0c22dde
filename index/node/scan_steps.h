// The number of steps of scans, for tests and measurements that count steps and not time.
#pragma once

#include <cstdint>

namespace lodgekv {

// Leaves that this thread's scans have copied.
inline thread_local uint64_t scanned_leaves = 0;

}  // namespace lodgekv
