// Redirects the locks, waits, searches and record checks of the code under test to the scheduler.
// The linker redirects the calls of a program that links this (--wrap in schedule.cmake): the
// engines are the product's own objects, with nothing added to them.
#pragma once

namespace lodgekv::test {

// While this object exists, a thread that waits for a version lock asks the scheduler instead.
class ScheduledWaits {
 public:
  ScheduledWaits();
  ~ScheduledWaits();
  ScheduledWaits(const ScheduledWaits&) = delete;
  ScheduledWaits& operator=(const ScheduledWaits&) = delete;
};

}  // namespace lodgekv::test
