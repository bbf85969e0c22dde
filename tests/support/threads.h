// Threads of a test that start together.
#pragma once

#include <cstdint>
#include <functional>

namespace lodgekv::test {

// Calls body(0) ... body(threads - 1), each on its own thread, all started together; returns when
// all have returned.
void RunTogether(uint32_t threads, const std::function<void(uint32_t thread)>& body);

}  // namespace lodgekv::test
