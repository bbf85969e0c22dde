// The pool's own protocols, whatever engine uses it: creation, its state, the chunk table, large
// objects, a clean close and reopening, also by processes that flush nothing. Every image is opened
// by the pool alone and compared with what was promised.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "tests/crash/lab/tracer.h"

namespace lodgekv::test {

struct PoolOutcome {
  uint64_t images = 0;
  std::set<std::string, std::less<>> crash_points;
  std::optional<std::string> problem;  // the first image that breaks a promise
};

// `generation`: of the state when the scenario begins; 0: the scenario creates the pool.
PoolOutcome RunPoolScenario(CrashModel model, Fault fault, uint32_t generation = 0);

}  // namespace lodgekv::test
