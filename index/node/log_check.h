// What a tree's Check says of the log in front of its buffers.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "index/node/append_log.h"

namespace lodgekv {

// Each log counts as many valid entries as there are buffered pairs of it, `buffered` by log.
// Calls problem(parts...) for each that does not. Nobody writes meanwhile.
template <class Problem>
void CheckValidEntries(const AppendLog& logs, std::unordered_map<uint32_t, uint32_t> buffered,
                       Problem problem) {
  logs.VisitLive([&](uint32_t log, uint32_t valid) {
    const uint32_t expected = buffered[log];
    if (valid != expected) {
      problem("log ", log, ": ", valid, " entries counted as valid, ", expected, " are");
    }
    buffered.erase(log);
  });
  for (const auto& [log, count] : buffered) {
    if (count > 0) problem(count, " buffered pairs in log ", log, ", which is free");
  }
}

// A log of whose header one of the two copies is damaged is found by the other one. Writers go on
// meanwhile. Asks `go_on` now and then, and stops if it says so.
template <class GoOn, class Problem>
void CheckHeaders(const AppendLog& logs, GoOn go_on, Problem problem) {
  constexpr uint32_t kAtATime = 4096;
  const uint32_t end = logs.ids();
  for (uint32_t id = 0; id < end; ++id) {
    if (id % kAtATime == kAtATime - 1 && !go_on()) return;
    if (const pmem::Offset log = logs.DamagedHeader(id)) {
      problem("log ", log, ": one of the two copies of its header is damaged");
    }
  }
}

}  // namespace lodgekv
