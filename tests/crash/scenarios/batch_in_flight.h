// An atomic batch that did not reach its fence is dropped as a whole, whatever other threads have
// written and made durable meanwhile. The explorer's threads take turns between operations and
// cannot show that: here one is stopped at its first fence while another works.
#pragma once

#include <cstdint>

#include "tests/crash/lab/tracer.h"
#include "tests/support/engine_case.h"

namespace lodgekv::test {

struct BatchInFlight {
  uint64_t images = 0;
  uint64_t with_none = 0;
  uint64_t with_all = 0;
  uint64_t with_part = 0;
  uint64_t refused = 0;  // images that recovery did not open
  bool fault_happened = false;
};

// Stops an atomic batch of two puts, at both ends of the tree, before its first fence; puts keys in
// between on another thread; then checks what recovery makes of each image.
BatchInFlight RunBatchInFlightScenario(const EngineCase& engine_case, CrashModel model,
                                       Fault fault);

}  // namespace lodgekv::test
