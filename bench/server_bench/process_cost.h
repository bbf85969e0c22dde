// What a process has cost so far, over all of its threads.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

namespace lodgekv::server_bench {

struct ProcessCost {
  uint64_t processor_ns = 0;
  uint64_t sleeps = 0;  // how often a thread waited, and had to be woken

  friend ProcessCost operator-(const ProcessCost& a, const ProcessCost& b) {
    return {a.processor_ns - b.processor_ns, a.sleeps - b.sleeps};
  }
};

// Of the threads that it has now.
absl::StatusOr<ProcessCost> CostOf(uint64_t pid);

}  // namespace lodgekv::server_bench
