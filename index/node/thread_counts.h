// An engine's own counters: each thread counts separately, a reader sums them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "index/engine.h"

namespace lodgekv {

// Counters of one thread, which alone increments them.
template <unsigned kCount>
struct alignas(64) ThreadCounts {
  std::array<std::atomic<uint64_t>, kCount> values{};

  void Add(unsigned name, uint64_t n = 1) {
    auto& value = values[name];
    value.store(value.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
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
      sums[i] += counts_of(thread).values[i].load(std::memory_order_relaxed);
    }
  });
  for (unsigned i = 0; i < kCount; ++i) {
    visitor({texts[i].name, texts[i].help, CounterKind::kCounter, static_cast<double>(sums[i])});
  }
}

}  // namespace lodgekv
