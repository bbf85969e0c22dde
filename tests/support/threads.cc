#include "tests/support/threads.h"

#include <latch>
#include <thread>
#include <vector>

namespace lodgekv::test {

void RunTogether(uint32_t threads, const std::function<void(uint32_t thread)>& body) {
  std::latch start(threads);
  std::vector<std::thread> running;
  running.reserve(threads);
  for (uint32_t thread = 0; thread < threads; ++thread) {
    running.emplace_back([&start, &body, thread] {
      start.arrive_and_wait();
      body(thread);
    });
  }
  for (std::thread& thread : running) thread.join();
}

}  // namespace lodgekv::test
