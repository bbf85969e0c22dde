// The cost of a request as the message Cost of kv.proto.
#pragma once

#include <cstdint>
#include <string>

#include "index/cost.h"

namespace lodgekv::server {

// On the wire. `cost` is that of a group of so many operations, `share` this request's part of it.
std::string CostBytes(const Cost& cost, uint64_t operations, const Cost& share);

}  // namespace lodgekv::server
