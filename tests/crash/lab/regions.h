// Human-readable names of places in a pool.
#pragma once

#include <string>

#include "index/pmem/pool.h"

namespace lodgekv::test {

// "node at 8192 + 64", "engine word 3", "row 2 of the chunk table", ...
std::string RegionOf(const pmem::Pool& pool, pmem::Offset offset);

}  // namespace lodgekv::test
