#include "bench/engine_bench/background.h"

#include <chrono>
#include <thread>

namespace lodgekv::bench {

bool BackgroundWorks(const Target& target) {
  double tasks = 0;
  target.VisitCounters([&](const CounterSample& sample) {
    if (sample.name == "background_queued_tasks") tasks += sample.value;
    if (sample.name == "background_running_tasks") tasks += sample.value;
  });
  return tasks > 0;
}

void AwaitBackground(const Target& target) {
  constexpr std::chrono::microseconds kBetweenLooks{50};
  while (BackgroundWorks(target)) std::this_thread::sleep_for(kBetweenLooks);
}

}  // namespace lodgekv::bench
