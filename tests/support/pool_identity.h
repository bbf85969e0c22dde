// The identity of a pool that a test makes for a case.
#pragma once

#include <cstdint>

#include "index/pmem/pool.h"
#include "tests/support/engine_case.h"

namespace lodgekv::test {

// Drawn from the seed of the tests; `run` tells the pools of one case apart.
pmem::PoolIdentity IdentityOf(const EngineCase& engine_case, uint64_t run = 0);

}  // namespace lodgekv::test
