// Where the code under test locks, waits, searches and verifies, the scheduler is asked. A program
// that links these has its calls redirected by the linker (--wrap in
// schedule.cmake): the engines are the very objects of the product, and nothing is added to them.
#pragma once

namespace lodgekv::test {

// While it lives a thread that waits for a version lock asks the scheduler instead.
class ScheduledWaits {
 public:
  ScheduledWaits();
  ~ScheduledWaits();
  ScheduledWaits(const ScheduledWaits&) = delete;
  ScheduledWaits& operator=(const ScheduledWaits&) = delete;
};

}  // namespace lodgekv::test
