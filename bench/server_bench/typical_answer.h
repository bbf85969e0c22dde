// What a server that finds everything answers.
#pragma once

#include <cstdint>
#include <string>

#include "bench/server_bench/request_source.h"

namespace lodgekv::server_bench {

// The message on the wire, for records of PutSource in their first version. No right answer is
// smaller.
std::string TypicalAnswer(CallKind kind, uint64_t batch);

}  // namespace lodgekv::server_bench
