// Work on the pool's chunks, shared by some threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace lodgekv::pmem {

// Calls one(i) for each i below count, in this order, from up to `threads` threads; until it
// returns false.
template <class One>
void InParallel(size_t count, unsigned threads, const One& one) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i; (i = next.fetch_add(1)) < count;) {
      if (!one(i)) next.store(count);
    }
  };
  std::vector<std::thread> helpers;
  for (size_t i = 1; i < std::min<size_t>(threads, count); ++i) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();
}

}  // namespace lodgekv::pmem
