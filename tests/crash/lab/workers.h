// Threads that work one at a time. Each has a worker slot of its own, and so its own partition of
// an engine's log, but the execution is deterministic.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace lodgekv::test {

class Workers {
 public:
  // With one thread, the caller itself does the work.
  explicit Workers(unsigned threads);
  ~Workers();

  // Calls `work` on thread `number` and returns when it has returned. A nested call runs on the
  // thread that is already working.
  void Do(uint64_t number, const std::function<void()>& work);
  // The thread that is working; 0 is the caller.
  uint64_t current() const { return current_; }

 private:
  struct Worker;
  std::vector<std::unique_ptr<Worker>> workers_;
  uint64_t current_ = 0;
};

}  // namespace lodgekv::test
