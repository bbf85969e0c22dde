// Threads that work one at a time: each has a worker slot of its own, and so a partition of its own
// in an engine's log, but nothing is left to chance.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "tests/crash/explorer.h"

namespace lodgekv::test {

class Explorer::Hands {
 public:
  // One thread: the caller itself.
  explicit Hands(unsigned threads);
  ~Hands();

  // Calls `work` on thread `number` and returns when it has returned. Work that is begun while
  // other work is being done runs on the thread that does that.
  void Do(uint64_t number, const std::function<void()>& work);

 private:
  struct Hand;
  std::vector<std::unique_ptr<Hand>> hands_;
  bool busy_ = false;
};

}  // namespace lodgekv::test
