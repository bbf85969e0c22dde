// The identity of a test's pool.
#pragma once

#include <cstdint>

#include "index/pmem/pool.h"
#include "tests/support/engine_case.h"

namespace lodgekv::test {

// Drawn from the seed of the tests; `run` distinguishes the pools of one case.
pmem::PoolIdentity IdentityOf(const EngineCase& engine_case, uint64_t run = 0);

}  // namespace lodgekv::test
