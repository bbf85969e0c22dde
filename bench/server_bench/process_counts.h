// What a process has done so far, as process_counter.cc counts it in a file that both map.
//
// Counted are calls of libc's and C++'s functions that another library or the program makes. Not
// counted are copies that the compiler writes out itself (of a few bytes, of a size it knows), and
// calls of the system that libc makes by itself (a lock's futex): a lock that is waited for shows
// as a sleep (process_cost.h).
#pragma once

#include <cstdint>

namespace lodgekv::server_bench {

struct ProcessCounts {
  uint64_t allocations = 0;
  uint64_t allocated_bytes = 0;
  uint64_t copies = 0;  // memcpy and memmove
  uint64_t copied_bytes = 0;
  uint64_t system_calls = 0;

  friend ProcessCounts operator-(const ProcessCounts& a, const ProcessCounts& b) {
    return {a.allocations - b.allocations, a.allocated_bytes - b.allocated_bytes,
            a.copies - b.copies, a.copied_bytes - b.copied_bytes, a.system_calls - b.system_calls};
  }
};

// The variable that names the file, for the process that is counted.
inline constexpr char kProcessCountsVariable[] = "PROCESS_COUNTS";

}  // namespace lodgekv::server_bench
