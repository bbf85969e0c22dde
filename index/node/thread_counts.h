// An engine's own counters: each thread counts separately, a reader sums them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "index/engine.h"
#include "index/pmem/owned_counter.h"

namespace lodgekv {

// Counters of one thread, which alone increments them.
template <unsigned kCount>
struct alignas(64) ThreadCounts {
  std::array<pmem::OwnedCounter, kCount> values{};

  void Add(unsigned name, uint64_t n = 1) { values[name].Add(n); }
};

struct CounterText {
  std::string_view name;  // as CounterSample
  std::string_view help;
};

// Visits the sums of `counts_of(thread)` over `threads` (pmem::PerWorker).
template <unsigned kCount, class Threads, class CountsOf>
void VisitSums(const CounterText (&texts)[kCount], const Threads& threads, CountsOf counts_of,
               CounterVisitor visitor) {
  std::array<uint64_t, kCount> sums{};
  threads.ForEach([&](const auto& thread) {
    for (unsigned i = 0; i < kCount; ++i) {
      sums[i] += counts_of(thread).values[i].Load();
    }
  });
  for (unsigned i = 0; i < kCount; ++i) {
    visitor({texts[i].name, texts[i].help, CounterKind::kCounter, static_cast<double>(sums[i])});
  }
}

}  // namespace lodgekv
