// Threads that work one at a time: each has a worker slot of its own, and so a partition of its own
// in an engine's log, but nothing is left to chance.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace lodgekv::test {

class Hands {
 public:
  // One thread: the caller itself.
  explicit Hands(unsigned threads);
  ~Hands();

  // Calls `work` on thread `number` and returns when it has returned. Work that is begun while
  // other work is being done runs on the thread that does that.
  void Do(uint64_t number, const std::function<void()>& work);
  // The thread that is working: 0 is the caller's.
  uint64_t current() const { return current_; }

 private:
  struct Hand;
  std::vector<std::unique_ptr<Hand>> hands_;
  uint64_t current_ = 0;
};

}  // namespace lodgekv::test
